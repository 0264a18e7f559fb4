-- Writes a version beside the thread's runs, while none is at work.
-- KEYS[1]  base key of the thread
-- ARGV     run that waits or '', base number, base nonce, nonce, replans (1 or 0), step, status, wait, plan, meta, number of
--          values, of lists, of tasks; then values, lists and tasks (_step.lua)
-- Returns  {written, stale or busy, run that is at work or ''}
-- Keeps    1, 5, 6 (a repeat is known by the nonce), 8 (answers stay where the step does), 11.

local id, base_number, base_nonce, nonce, replans, step, status, wait_kind, plan, meta = unpack(ARGV, 1, 10)
local value_count, list_count, task_count = unpack(ARGV, 11, 13)
local number, held = text(num(base_number) + 1), {}
local active = thread.active

-- What comes next takes the place of what the thread held.
local function replan()
  if active == '' then
    if thread.continuable ~= '' then
      drop_step(thread.continuable)
    end
    thread.continuable, thread.ready = '', status ~= 'completed' and number or ''
    return (write_tasks(task_count))
  end
  local run = run_of(active)
  drop_step(active)
  run.step, run.plan, run.wait, run.asked = step, plan, wait_kind, ''
  return (write_tasks(task_count, active))
end

if was_written(number, nonce) then
  return { 'written', '' }
elseif active ~= '' and run_of(active).status ~= 'waiting' then
  return { 'busy', active }
elseif num(thread.version) ~= num(base_number) or thread.nonce ~= base_nonce or active ~= id or thread.created_ms == '' then
  return { 'stale', '' }
end

read_from(14)
write_values(value_count, number, held)
write_lists(list_count, number, held)
local tasks = replans == '1' and replan() or (write_tasks(task_count))
thread.version, thread.nonce, thread.changed_ms, thread.idle_ms = number, nonce, now, now
thread.ready = thread.ready ~= '' and number or ''
if active ~= '' then
  run_of(active).version = number
end
write_checkpoint(active, number, nonce, step, status, wait_kind, plan, tasks, meta, held)
save()
return { 'written', '' }
