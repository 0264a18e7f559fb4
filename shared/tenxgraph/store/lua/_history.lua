-- Prelude of scripts that go back: a new version with the values and lists of an old one. Memory: Thread.return_to.
-- Keeps  5, 11: a list that differs is a cut of where its items lie, so none of them is copied.

local BATCH = 100

-- What checkpoints changed that were dropped just before this one, as far as it is wanted; see retain.lua.
local function read_base(number, wanted, found)
  if open(key('bases'))[number] == '' then
    return 0
  end
  local flat, count = redis.call('HGETALL', key('base', number)), 0
  for i = 1, #flat, 2 do
    local kind, name = flat[i]:match('^([vx]):(.*)$')
    if wanted[name] then
      wanted[name], count = nil, count + 1
      found[name] = kind == 'v' and flat[i + 1] or nil
    end
  end
  return count
end

-- Values at a version of the fields that are asked for; those that were not there are missing.
local function values_at(number, names)
  local found, wanted, left, last = {}, {}, #names, text(num(number)) .. '-0'
  for _, name in ipairs(names) do
    wanted[name] = true
  end
  while left > 0 do
    local entries = redis.call('XREVRANGE', key('checkpoints'), last, '-', 'COUNT', BATCH)
    for _, entry in ipairs(entries) do
      for i = 1, #entry[2], 2 do
        local kind, name = entry[2][i]:match('^([vx]):(.*)$')
        if kind and wanted[name] then
          wanted[name], left = nil, left - 1
          found[name] = kind == 'v' and entry[2][i + 1] or nil
        end
      end
      left = left - read_base(entry[1]:match('^%d+'), wanted, found)
    end
    if #entries < BATCH then
      break
    end
    last = '(' .. entries[#entries][1]
  end
  return found
end

local function return_values(number, version, checkpoint)
  local state, changed, names = open(key('state'), true), open(key('changed')), {}
  for name, at in pairs(all_of(changed)) do
    names[#names + 1] = num(at) > num(number) and name or nil
  end
  table.sort(names)
  local old = values_at(number, names)
  for _, name in ipairs(names) do
    if old[name] then
      state[name] = old[name]
    else
      remove(state, name)
    end
    changed[name] = version
    checkpoint[#checkpoint + 1], checkpoint[#checkpoint + 2] = (old[name] and 'v:' or 'x:') .. name, old[name] or ''
  end
end

-- List → {generation, length} at a version.
local function lists_at(number)
  local id, found = text(num(number)) .. '-0', {}
  local entry = redis.call('XRANGE', key('checkpoints'), id, id)[1]
  if not entry and num(number) > 0 then
    error('there is no checkpoint ' .. text(number) .. ' to return to', 0)
  end
  for i = 1, entry and #entry[2] or 0, 2 do
    local name = entry[2][i]:match('^l:(.*)$')
    if name then
      local gen, length, origin = entry[2][i + 1]:match('^(%d+):(%d+)(.*)$')
      found[name] = { generation_from(name, gen .. origin), num(length) }
    end
  end
  return found
end

-- What the generation held then, where its items lie; what was appended since stays in between.
local function cut_back(gen, length)
  local spans, left = {}, length
  local function take(first, count)
    count = math.min(count, left)
    if count > 0 then
      spans[#spans + 1] = text(first) .. '-' .. text(first + count)
      left = left - count
    end
  end
  for _, span in ipairs(gen.spans) do
    take(span[1], span[2] - span[1])
  end
  take(gen.start, left)
  return table.concat({ gen.home, text(redis.call('LLEN', gen.path)), table.concat(spans, ',') }, ':')
end

local function return_lists(number, version, checkpoint)
  local lists, old, names = open(key('lists')), lists_at(number), {}
  for name, gen in pairs(all_of(lists)) do
    names[#names + 1] = gen ~= '' and not old[name] and name or nil
  end
  for _, name in ipairs(names) do
    lists[name] = ''
  end
  for name, was in pairs(old) do
    local gen, length, now_gen = was[1], was[2], generation_of(name)
    if now_gen.number ~= gen.number or length_of(now_gen) ~= length then
      lists[name] = version .. ':' .. cut_back(gen, length)
      gen = generation_of(name)
    end
    checkpoint[#checkpoint + 1], checkpoint[#checkpoint + 2] = 'l:' .. name, place_of(gen, length)
  end
end

-- Writes the next version of the thread with all that it held at an older one. Once in a script, and no advance beside
-- it. Whoever has an image from before reads the state anew (returned).
local function return_to(number, nonce, id, step, status, meta, comes_next)
  local version, held = text(num(thread.version) + 1), {}
  return_values(number, version, held)
  return_lists(number, version, held)
  thread.version, thread.nonce, thread.changed_ms, thread.returned = version, nonce, now, version
  write(
    'stream', 'XADD', key('checkpoints'), version .. '-0', 'nonce', nonce, 'run', id, 'step', step,
    'status', status, 'meta', meta, 'at', text(now), 'wait', comes_next and comes_next.wait or '',
    'plan', comes_next and comes_next.plan or '', 'tasks', comes_next and comes_next.tasks or '', unpack(held)
  )
end
