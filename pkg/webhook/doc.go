// Package webhook is how a message reaches a chat: the body that each service
// wants, the check of whom a webhook may reach, and what an answer means.
//
// It is the last stop of an alert's path, after the notifier's queue, and what
// admin sends a test message with. Nothing is kept or tried again here.
//
//	Message ─▶ clean ─▶ body of the format ─▶ guard at dial time ─▶ answer ─▶ Result
//
// What a newcomer gets wrong: that an error means that nothing arrived. Once a
// request is on its way and no answer came, nobody knows; Result.Unknown says
// so. And an address is a secret: whoever knows it can write to the chat. It
// is in no Result, no error and no log line.
package webhook
