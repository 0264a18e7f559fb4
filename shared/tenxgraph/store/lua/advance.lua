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
local run, lists, lengths = run_of(id), open(key('lists')), {}
local cursor, posts = 22, status == 'running' and can_post()

local function read()
  cursor = cursor + 1
  return ARGV[cursor]
end

local function write_values(checkpoint)
  local state, changed = open(key('state'), true), open(key('changed'))
  for _ = 1, num(value_count) do
    local field, value = read(), read()
    state[field], changed[field] = value, number
    checkpoint[#checkpoint + 1], checkpoint[#checkpoint + 2] = 'v:' .. field, value
  end
end

local function push(path, count)
  for first = 1, count, CHUNK do
    local last = math.min(first + CHUNK - 1, count)
    write('list', 'RPUSH', path, unpack(ARGV, cursor + first, cursor + last))
  end
  cursor = cursor + count
end

local function write_list()
  local field, mode, count = read(), read(), num(read())
  if mode == 'rewrite' or lists[field] == '' then
    lists[field] = number
    write('set', 'SADD', key('generations'), field .. ':' .. lists[field])
  end
  if mode == 'cut' then
    lists[field] = number .. ':' .. read()
  end
  local gen = generation_of(field)
  lengths[field] = mode == 'cut' and gen.kept or length_of(gen) + count
  push(gen.path, count)
end

local function write_lists(checkpoint)
  for _ = 1, num(list_count) do
    write_list()
  end
  for field in pairs(all_of(lists)) do
    local gen = generation_of(field)
    checkpoint[#checkpoint + 1] = 'l:' .. field
    checkpoint[#checkpoint + 1] = place_of(gen, lengths[field] or length_of(gen))
  end
end

local function write_tasks()
  local tasks, names = tasks_of(id), {}
  drop_step(id)
  for i = 1, num(task_count) do
    names[i] = read()
    local task = task_of(id, names[i])
    task.node, task.queue, task.priority, task.body = read(), read(), read(), read()
    task.status, task.attempt = 'parked', 1
  end
  tasks.order = table.concat(names, '\n')
  return names
end

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

local changes = {}
write_values(changes)
write_lists(changes)
thread.version, thread.nonce, thread.changed_ms = number, nonce, now
add_events(id, events)
run.version, run.step, run.plan, run.reason, run.wait, run.input = number, next_step, plan, reason, '', ''
go_on(write_tasks())
write(
  'stream', 'XADD', key('checkpoints'), number .. '-0', 'nonce', nonce, 'run', id, 'step', next_step,
  'status', run.status, 'meta', meta, 'at', text(now), unpack(changes)
)
save()
return answer()
