// What every page does: theme, keyboard, dialogs, copying, and forms that are
// sent only once.
import "./theme.js";
import "./keys.js";
import "./dialog.js";
import "./copy.js";
import "./forms.js";
import "./switcher.js";
