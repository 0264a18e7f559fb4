-- Prelude, part 3: what a worker is given with a task, and of the state only what it lacks.
-- Keeps  11: a known ancestor of the state costs what changed since; gaps beyond MAX_ITEMS are left to LRANGE, outside.

local MAX_ITEMS = 500

-- Reads from ARGV[first]: number, nonce, and of each list that the caller has: name, generation, length.
local function known_from(first)
  local known = { number = ARGV[first], nonce = ARGV[first + 1], lists = {} }
  for i = first + 2, #ARGV, 3 do
    known.lists[ARGV[i]] = { gen = ARGV[i + 1], length = num(ARGV[i + 2]) }
  end
  return known
end

-- Numbers come again when a thread is deleted or a replica takes over; number and nonce together do not.
local function was_written(number, nonce)
  local id = text(num(number)) .. '-0'
  local entry = num(number) > 0 and redis.call('XRANGE', key('checkpoints'), id, id)[1]
  return entry and entry[2][2] == nonce -- the first field of a checkpoint is its nonce
end

local function values_since(number)
  local names = {}
  for name, changed in pairs(all_of(open(key('changed')))) do
    if num(changed) > number then
      names[#names + 1] = name
    end
  end
  local state, flat = open(key('state'), true), {}
  fetch(state, names)
  for _, name in ipairs(names) do
    flat[#flat + 1], flat[#flat + 2] = name, state[name]
  end
  return flat
end

local function items_from(gen, from)
  if #gen.spans == 0 or from >= gen.kept then
    return redis.call('LRANGE', gen.path, gen.start + from - gen.kept, -1)
  end
  local items, at = {}, 0
  local function take(first, last)
    for _, item in ipairs(redis.call('LRANGE', gen.path, first, last)) do
      at = at + 1
      if at > from then
        items[#items + 1] = item
      end
    end
  end
  for _, span in ipairs(gen.spans) do
    take(span[1], span[2] - 1)
  end
  take(gen.start, -1)
  return items
end

-- {name, generation, length, from where the items are, items, origin}, one after the other.
local function lists_beyond(lists)
  local flat = {}
  for name in pairs(all_of(open(key('lists')))) do
    local gen, have = generation_of(name), lists[name]
    local length = length_of(gen)
    local from = have and have.gen == gen.number and math.min(have.length, length) or 0
    local items = length - from <= MAX_ITEMS and items_from(gen, from) or {}
    for _, value in ipairs({ name, gen.number, length, from, items, gen.origin }) do
      flat[#flat + 1] = value
    end
  end
  return flat
end

-- From before a return no change leads to now, for fields may have gone.
-- {number, nonce}, and unless the caller has just that: {…, 1 if on top of what it has, values, lists}.
local function image_reply(known)
  local number, nonce = thread.version, thread.nonce
  if num(number) == num(known.number) and nonce == known.nonce then
    return { number, nonce }
  end
  local on_top = num(known.number) >= num(thread.returned) and was_written(known.number, known.nonce)
  return {
    number, nonce, on_top and 1 or 0,
    on_top and values_since(num(known.number)) or redis.call('HGETALL', key('state')),
    lists_beyond(on_top and known.lists or {}),
  }
end

-- A worker has the task; its nonce becomes the token.
local function take(id, task, nonce, worker, lease_ms, events)
  local run = run_of(id)
  task.status, task.token, task.worker, task['until'] = 'claimed', nonce, worker, now + lease_ms
  task.leaving, task.emitted = '', ''
  task.first = task.first == '' and now or task.first
  run.started_ms = run.started_ms == '' and now or run.started_ms
  if run.status == 'queued' then
    set_status(run, 'running')
  end
  run.reason = ''
  add_events(id, events)
end

local function spec_of(task)
  return { task.name, task.node, task.queue, task.priority, task.body }
end

-- {token, attempt, spec, alone, run, interrupts, image, error, first_started_ms, specs, updates, deaths}; after
-- save() only.
local function claim_reply(id, task, known)
  local names, specs, updates = names_of(id), {}, {}
  if task.name == PLAN then
    for i, node in ipairs(list_of(node_names_of(id), id)) do
      specs[i] = spec_of(node)
    end
    updates = redis.call('HGETALL', key('updates', id))
  end
  return {
    task.token, task.attempt, spec_of(task), #names == 1 and 1 or 0,
    redis.call('HGETALL', key('run', id)), redis.call('HGETALL', key('interrupts', id)),
    image_reply(known), task.error, task.first, specs, updates, task.deaths,
  }
end
