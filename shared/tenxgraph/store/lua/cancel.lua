-- Ends a run now and fences the step in flight.
-- KEYS[1]  base key of the thread
-- ARGV     run, reason, error, events
-- Returns  {status of the run or '', dispatch}
-- Keeps    4 (the step's tasks are gone, and their tokens with them), 6, 7, 9.

local id, reason, err, events = unpack(ARGV, 1, 4)
local run = run_of(id)

if run.created_ms == '' then
  return { '', {} }
end
if run.ended_ms ~= '' then
  return { run.status, freed_by(id) }
end
add_events(id, events)
run.reason = reason
if thread.active == id then
  finish(id, 'cancelled', err)
else
  finish_waiting(id, 'cancelled', err)
end
save()
return { run.status, freed_by(id) }
