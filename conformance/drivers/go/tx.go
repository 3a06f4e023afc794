package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Several clients run the same steps at the same time; what each of them was told is printed client by client. Lines
// that begin with # are remarks; FAIL marks what the program itself holds to be wrong.

const txClients = 6

// txServers returns the number of servers that a client can reach. A scenario that shows a change of servers asks until
// it has seen as many.
func txServers() int {
	servers, err := strconv.Atoi(os.Getenv("TX_SERVERS"))
	if err != nil {
		return 1
	}
	return servers
}

// txClient is one client of a scenario. Its methods panic with a broken step, which ends the scenario for it.
type txClient struct {
	scenario string
	number   int
	lines    []string
	broken   bool
	meeting  *txMeeting
}

type txScenario struct {
	name string
	run  func(context.Context, *txClient)
}

func (c *txClient) say(step string, values ...any) {
	line := fmt.Sprintf("%s[%d] %s: %s", c.scenario, c.number, step, strings.TrimSuffix(fmt.Sprintln(values...), "\n"))
	c.lines = append(c.lines, strings.ReplaceAll(line, "\n", " | "))
}

func (c *txClient) remark(text string) { c.lines = append(c.lines, "# "+text) }

// must ends the client's scenario at an error that nobody should be told.
func (c *txClient) must(step string, err error) {
	if err != nil {
		panic(fmt.Errorf("%s: %w", step, err))
	}
}

// fails says the SQLSTATE that was to come.
func (c *txClient) fails(step string, err error) {
	if err == nil {
		panic(fmt.Errorf("%s: no error", step))
	}
	c.say(step, state(err))
}

// meet waits until every client is here.
func (c *txClient) meet(ctx context.Context) { c.must("meet", c.meeting.wait(ctx)) }

// txMeeting lets nobody go on until all clients have come, any number of times.
type txMeeting struct {
	lock   sync.Mutex
	here   int
	opened chan struct{}
}

func (m *txMeeting) wait(ctx context.Context) error {
	m.lock.Lock()
	opened := m.opened
	m.here++
	if m.here == txClients {
		m.here, m.opened = 0, make(chan struct{})
		close(opened)
	}
	m.lock.Unlock()
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func runTx(scenarios []txScenario, chosen []string) {
	for _, scenario := range scenarios {
		if !txWanted(scenario.name, chosen) {
			continue
		}
		ctx, stop := context.WithTimeout(context.Background(), 120*time.Second)
		meeting := &txMeeting{opened: make(chan struct{})}
		var clients []*txClient
		var all sync.WaitGroup
		for number := range txClients {
			client := &txClient{scenario: scenario.name, number: number, meeting: meeting}
			clients = append(clients, client)
			all.Go(func() {
				defer func() {
					if broken := recover(); broken != nil {
						client.broken = true
						client.lines = append(client.lines, strings.ReplaceAll(
							fmt.Sprintf("FAIL %s[%d] %v", scenario.name, number, broken), "\n", " | "))
						stop()
					}
				}()
				scenario.run(ctx, client)
			})
		}
		all.Wait()
		stop()
		for _, client := range clients {
			if client.broken {
				failures++
			}
			for _, line := range client.lines {
				fmt.Println(line)
			}
		}
		fmt.Println("done", scenario.name)
	}
}

// txWanted tells whether the arguments leave a scenario: names after a dash are left out, others run alone.
func txWanted(name string, chosen []string) bool {
	alone, named := false, false
	for _, one := range chosen {
		if one == "-"+name {
			return false
		}
		alone = alone || !strings.HasPrefix(one, "-")
		named = named || one == name
	}
	return named || !alone
}

func txDatabase() string { return os.Getenv("PGDATABASE") }
