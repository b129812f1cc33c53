// Package sim runs the whole system in one process on one seed: submissions through the API's handlers, dispatchers,
// workers, a Kafka cluster (kfake), the model store and a simulated provider, in virtual time (testing/synctest), with
// faults that the seed draws. What is seen from outside of the processes goes into a history (e2e/history), which is
// checked against I1..I8. After the faults comes a quiet time, by whose end everything must have ended: tasks terminal,
// lag and outbox 0, no goroutine left.
//
//	go test ./e2e/sim                     # 600 seeds from 1 on
//	go test -timeout 1h ./e2e/sim -sim.seeds 5000
//	go test ./e2e/sim -sim.seed 17        # one, with the processes' logs
//
// # Virtual time
//
// Time stands while any goroutine of the bubble can run, and a goroutine that waits for a mutex counts as one that can.
// franz-go waits for mutexes whose holders wait; built with the tag synctests it waits for channels instead. So the test
// runs itself again, as go test with the tag. All of this package is built without it too, and the house's checks see it.
//
// A seed decides all that is drawn: arrivals, latencies, answers, faults. Which of two goroutines that are due at one
// instant is first, it does not; the history of a failure is therefore written to a file.
//
// # Processes
//
// A process cannot be stopped, but all its ways out can (proc): network, store and provider. Killed, its connections
// break, nothing it says is heard any more, and only what was on its way arrives. Standing still, whatever it asks or is
// answered waits, past leases and sessions, and goes on then.
//
// # Sometimes
//
// A run in which nothing happens shows nothing. What should happen now and then is counted, and over all seeds each
// count must be above 0.
package sim
