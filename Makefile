# Thin by intent: the work is in scripts/ and in `cargo xtask`.

.PHONY: help demo test ci build deb bench bench-tls bench-storm bench-idle bench-state

help:
	@echo 'make demo    build Weir and show a pgbench run through it beside the same run direct'
	@echo 'make test    run every test, also those against real servers and drivers'
	@echo 'make ci      everything that CI checks'
	@echo 'make build   build target/release/weir'
	@echo 'make deb     build Debian packages in target/deb'
	@echo 'make bench   compare Weir and PgBouncer on this machine (about ten minutes)'
	@echo 'make bench-tls, bench-storm, bench-idle, bench-state'
	@echo '             the same with TLS on both hops, in a storm of logins, in memory per idle client,'
	@echo '             and with session state followed or not'
	@echo
	@echo 'demo and test install what is missing (Debian 12); they ask no questions.'

demo:
	@bash scripts/demo.sh

test:
	@bash scripts/test.sh

ci:
	@bash .ci/run

build:
	@bash scripts/build.sh

deb:
	@bash scripts/deb.sh

bench: build
	cargo xtask bench smoke

bench-tls bench-storm bench-idle bench-state: bench-%: build
	cargo xtask bench $*
