package people

import (
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/token"
)

func TestErrorsDoNotRepeatSecrets(t *testing.T) {
	t.Parallel()
	const canary = "canary-5e3f0c"
	_, tokenErr := token.Parse(canary)
	_, keyErr := digestAPIKey(canary)
	tokenSettingErr := ValidateBootstrap(config.Bootstrap{Project: "p", Token: secret.New(canary)})
	keySettingErr := ValidateBootstrap(config.Bootstrap{APIKey: secret.New(canary)})
	for _, err := range []error{tokenErr, keyErr, tokenSettingErr, keySettingErr} {
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("no error, or one with the secret: %v", err)
		}
	}
}
