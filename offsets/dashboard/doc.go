// Package dashboard is what the person on call looks at: the page on the admin listener, and the dashboards, rules and
// alerts for those who run Grafana and Prometheus (grafana, prometheus). README.md says what to do about each alert.
//
// It promises:
//
//   - What cannot be read is said to be so, and why. It is never shown as 0, as empty or as the numbers of before.
//   - The page is whole without JavaScript. With it, what has changed is replaced every few seconds, the rest stays as it
//     is: focus, selection and scrolling with it.
//   - Nothing is loaded from elsewhere, and a policy says so to the browser. Whatever comes from outside (names, messages
//     of providers) is escaped by html/template. No content of a conversation is shown.
//   - Asking costs the same however many ask: one reading of the sources is given to all who ask within two seconds.
//   - Colour is never the only carrier of a meaning.
//
// Handler's answers: / (HTML; ?sort=partition, ?show=behind), /page.json (the same, in parts, for the page itself) and
// /tasks/{id} (one task and its attempts; HTML, or JSON by Accept or ?format=json). All of them are GET only.
//
// The package knows nothing of Kafka, the store or the model: it takes Sources, and shows what they say. A reading starts
// one goroutine for each source and waits for them.
package dashboard
