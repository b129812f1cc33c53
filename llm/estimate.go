package llm

import "unicode/utf8"

// ASCIIPerToken is how many bytes of ASCII EstimateTokens takes for a token.
const ASCIIPerToken = 4

// EstimateTokens is about how many tokens s has: four bytes of ASCII are one, and so is every other character. It is near
// enough for a limit, without a tokenizer for each model, and errs towards more.
func EstimateTokens(s string) int {
	ascii, others := 0, 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			ascii++
			i++
			continue
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		others++
		i += n
	}
	return (ascii+ASCIIPerToken-1)/ASCIIPerToken + others
}
