# Rails' ActiveRecord writes rows and reads them, each time at once and then many times (`ok MODE READS`).

require 'active_record'

ROUNDS = 3
# Enough to outlast the time for which a session that has written reads from the primary.
READS = 600

ActiveRecord::Base.establish_connection(
  adapter: 'postgresql', host: ENV['PGHOST'], port: ENV['PGPORT'], username: ENV['PGUSER'],
  password: ENV['PGPASSWORD'], database: ENV['PGDATABASE']
)

class Row < ActiveRecord::Base
  self.table_name = 't'
end

def read(mode, id)
  # The comment at the end of the statement is the mark of its mode.
  found = -> { Row.annotate("#{mode}.").find(id).name }
  mode == 'rails' ? found.call : ActiveRecord::Base.transaction(&found)
end

raise 'statements are not prepared' unless ActiveRecord::Base.connection.prepared_statements?

%w[rails rails-transaction].each do |mode|
  ROUNDS.times do
    id = Row.create!(name: mode).id
    READS.times do |turn|
      raise "read #{turn} does not show the row #{id}" unless read(mode, id) == mode
    end
  end
  puts "ok #{mode} #{ROUNDS * READS}"
end
