-- Begins a thread with a state and what comes next from there.
-- KEYS[1]  base key of the thread
-- ARGV     graph, graph_version, user, nonce, step, status, wait, plan, meta, number of values, of lists, of tasks; then
--          values, lists and tasks (_step.lua); media: id, data
-- Returns  1, or 0 when there is a thread
-- Keeps    5, 6 (a repeat is known by the nonce).

local graph, graph_version, user, nonce, step, status, wait_kind, plan, meta = unpack(ARGV, 1, 9)
local value_count, list_count, task_count = unpack(ARGV, 10, 12)
local held = {}

if thread.created_ms ~= '' then
  return was_written('1', nonce) and 1 or 0
end
read_from(13)
thread.created_ms, thread.changed_ms, thread.idle_ms = now, now, now
thread.graph, thread.graph_version, thread.user_id = graph, graph_version, user
thread.version, thread.nonce, thread.ready = '1', nonce, status ~= 'completed' and '1' or ''
write_values(value_count, '1', held)
write_lists(list_count, '1', held)
local tasks = write_tasks(task_count)
for i = cursor + 1, #ARGV, 2 do
  write('hash', 'HSET', key('media'), ARGV[i], ARGV[i + 1])
end
write_checkpoint('', '1', nonce, step, status, wait_kind, plan, tasks, meta, held)
save()
return 1
