-- Prelude of scripts whose arguments bring a version: its values, its lists and the tasks that come next.
-- ARGV     …, from where read_from() says: values: name, bytes; lists: name, "append", "rewrite" or "cut", number of
--          items, of a cut where all lie, items (appends stand before cuts); tasks: task, node, queue, priority, body
-- Keeps    5, 11; a checkpoint holds what a run needs to go on from it, so that any of them can be taken up again.

local cursor

local function read_from(first)
  cursor = first - 1
end

local function read()
  cursor = cursor + 1
  return ARGV[cursor]
end

local function write_values(count, number, held)
  local state, changed = open(key('state'), true), open(key('changed'))
  for _ = 1, num(count) do
    local field, value = read(), read()
    state[field], changed[field] = value, number
    held[#held + 1], held[#held + 2] = 'v:' .. field, value
  end
end

local function push(path, count)
  for first = 1, count, CHUNK do
    local last = math.min(first + CHUNK - 1, count)
    write('list', 'RPUSH', path, unpack(ARGV, cursor + first, cursor + last))
  end
  cursor = cursor + count
end

local function write_list(number, lengths)
  local lists, field, mode, count = open(key('lists')), read(), read(), num(read())
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

local function write_lists(count, number, held)
  local lengths = {}
  for _ = 1, num(count) do
    write_list(number, lengths)
  end
  for field in pairs(all_of(open(key('lists')))) do
    local gen = generation_of(field)
    held[#held + 1], held[#held + 2] = 'l:' .. field, place_of(gen, lengths[field] or length_of(gen))
  end
end

-- A task as text: each of its parts behind its length. A checkpoint keeps the next tasks so.
local function packed(...)
  local parts = {}
  for i, part in ipairs({ ... }) do
    parts[i] = #part .. ':' .. part
  end
  return table.concat(parts)
end

-- The tasks that come next, packed; those of a run are parked there, and named in the second list.
local function write_tasks(count, id)
  local all, names = {}, {}
  for i = 1, num(count) do
    local name, node, queue_name, priority, body = read(), read(), read(), read(), read()
    names[i], all[i] = name, packed(name, node, queue_name, priority, body)
    if id then
      local task = task_of(id, name)
      task.node, task.queue, task.priority, task.body = node, queue_name, priority, body
      task.status, task.attempt = 'parked', 1
    end
  end
  if id then
    tasks_of(id).order = table.concat(names, '\n')
  end
  return table.concat(all), names
end

local function write_checkpoint(id, number, nonce, step, status, wait_kind, plan, tasks, meta, held)
  write(
    'stream', 'XADD', key('checkpoints'), number .. '-0', 'nonce', nonce, 'run', id, 'step', step, 'status', status,
    'meta', meta, 'at', text(now), 'wait', wait_kind, 'plan', plan, 'tasks', tasks, unpack(held)
  )
end
