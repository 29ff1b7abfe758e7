package engine

// PID is the child's process ID, or 0 while there is no child. Tests kill it.
func (e *Engine) PID() int { return int(e.pid.Load()) }
