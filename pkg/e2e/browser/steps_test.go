package browser

import (
	"context"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// step is an action in a tab.
type step = chromedp.Action[chromedp.Void]

// script returns a step that runs a script in the page.
func script(text string) step { return chromedp.Evaluate[chromedp.Void](text) }

// drag returns a step that drags the mouse across the element that the selector
// matches. from and to are fractions of its width.
func drag(selector string, from, to float64) step {
	where := fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().toJSON()`, selector)
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		box, err := chromedp.Evaluate[struct{ X, Y, Width, Height float64 }](where)(ctx, target)
		if err != nil {
			return err
		}
		mouse := func(event input.DispatchMouseEventType, fraction float64) step {
			return chromedp.MouseEvent(event, box.X+box.Width*fraction, box.Y+box.Height/2, chromedp.ButtonLeft, chromedp.ClickCount(1))
		}
		_, err = chromedp.Steps(mouse(chromedp.MousePressed, from), mouse(chromedp.MouseMoved, (from+to)/2), mouse(chromedp.MouseMoved, to), mouse(chromedp.MouseReleased, to))(ctx, target)
		return err
	})
}

// insert returns a step that inserts a whole text into the focused field, as
// pasting does.
func insert(text string) step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, input.InsertText, input.InsertTextParams{Text: text})
		return err
	})
}

// keys returns a step that presses keys. All have the same timestamp, so that the
// page recognizes a combination of keys also on a slow machine.
func keys(list ...string) step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		now := input.TimeSinceEpoch(float64(time.Now().UnixMicro()) / 1e6)
		for _, key := range list {
			at := func(p *input.DispatchKeyEventParams) { p.Timestamp = now }
			if _, err := chromedp.KeyEvent(key, at)(ctx, target); err != nil {
				return err
			}
		}
		return nil
	})
}
