-- Writes all that a step changes: state, checkpoint, events and next tasks, or the run's end and the next run's start.
-- KEYS[1]  base key of the thread
-- KEYS[2…] lists of the broker, for messages of the tasks; only where store and broker are one server
-- ARGV     run, step, task, token, base number, base nonce, nonce, next step, status, plan, reason, wait, error, meta,
--          events, number of values, of lists, of tasks; nonce of who takes the next task at once or '', worker,
--          lease_ms, events of that claim; then values: name, bytes; lists: name, "append", "rewrite" or "cut",
--          number of items, of a cut where all lie, items (appends stand before cuts); tasks: task, node, queue,
--          priority, body; messages (post)
-- Returns  {1, number, nonce, status, dispatch of what was neither posted nor taken, claim or ''}, or {0} when the
--          attempt was fenced or the version moved
-- Keeps    1, 2, 4, 5, 6 (a repeat is known by the nonce), 7 (a stopped run plans nothing), 11.

local id, step, name, token, base_number, base_nonce, nonce, next_step, status = unpack(ARGV, 1, 9)
local plan, reason, wait_kind, err, meta, events, value_count, list_count, task_count = unpack(ARGV, 10, 18)
local taker, worker, lease_ms, started = unpack(ARGV, 19, 22)
local number = text(num(base_number) + 1)
local run, posts = run_of(id), status == 'running' and can_post()

local function go_on(names)
  if status == 'failed' then
    finish(id, 'failed', err)
  elseif run.stop ~= '' then
    run.wait = wait_kind
    finish(id, 'stopped')
  elseif status == 'waiting' then
    wait(id, wait_kind)
  elseif status == 'running' then
    for _, task_name in ipairs(names) do
      queue(task_of(id, task_name))
    end
    if taker ~= '' and #names == 1 then
      take(id, task_of(id, names[1]), taker, worker, lease_ms, started)
    elseif posts then
      post(cursor + 1)
    end
  else
    finish(id, status, err)
  end
end

local function claimed()
  for _, task_name in ipairs(taker ~= '' and thread.active == id and names_of(id) or {}) do
    local task = task_of(id, task_name)
    if task.token == taker and task.status == 'claimed' then
      return claim_reply(id, task, { number = number, nonce = nonce })
    end
  end
  return ''
end

local function answer()
  local mine = thread.active == id
  return { 1, number, nonce, run.status, mine and (posts and {} or dispatch_all()) or freed_by(id), claimed() }
end

local function may_advance()
  local task = find(id, step, name)
  return task and task.token == token and task.status == 'claimed' and (name == PLAN or #names_of(id) == 1)
    and num(thread.version) == num(base_number) and thread.nonce == base_nonce
end

if not may_advance() then
  if was_written(number, nonce) then
    return answer()
  end
  hear_fenced(id, step, name, token)
  return { 0 }
end

local held = {}
read_from(23)
write_values(value_count, number, held)
write_lists(list_count, number, held)
drop_step(id)
local tasks, names = write_tasks(task_count, id)
thread.version, thread.nonce, thread.changed_ms = number, nonce, now
add_events(id, events)
run.version, run.step, run.plan, run.reason, run.wait, run.input = number, next_step, plan, reason, '', ''
go_on(names)
write_checkpoint(id, number, nonce, next_step, run.status, wait_kind, plan, tasks, meta, held)
save()
return answer()
