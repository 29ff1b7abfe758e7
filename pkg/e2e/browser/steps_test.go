package browser

import (
	"context"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// step is something to do in a tab.
type step = chromedp.Action[chromedp.Void]

// script is a step that runs one in the page.
func script(text string) step { return chromedp.Evaluate[chromedp.Void](text) }

// drag is a step that drags the mouse over what the selector finds, from one
// share of its width to another.
func drag(selector string, from, to float64) step {
	where := fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().toJSON()`, selector)
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		box, err := chromedp.Evaluate[struct{ X, Y, Width, Height float64 }](where)(ctx, target)
		if err != nil {
			return err
		}
		mouse := func(what input.DispatchMouseEventType, share float64) step {
			return chromedp.MouseEvent(what, box.X+box.Width*share, box.Y+box.Height/2, chromedp.ButtonLeft, chromedp.ClickCount(1))
		}
		_, err = chromedp.Steps(mouse(chromedp.MousePressed, from), mouse(chromedp.MouseMoved, (from+to)/2), mouse(chromedp.MouseMoved, to), mouse(chromedp.MouseReleased, to))(ctx, target)
		return err
	})
}

// insert is a step that gives the focused field a text at once, as a paste does.
func insert(text string) step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, input.InsertText, input.InsertTextParams{Text: text})
		return err
	})
}

// keys is a step that presses keys. They carry one time, so that what belongs
// together does so on the slowest machine.
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
