// What every page does: theme, keys, dialogs, copying, forms that are sent once.
import "./theme.js";
import "./keys.js";
import "./dialog.js";
import "./copy.js";
import "./forms.js";
import "./switcher.js";
