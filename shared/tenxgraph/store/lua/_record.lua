-- Prelude of every script on a thread, part 1: hashes as records, and writes that wait for save().
-- KEYS[1]  the thread's base key, "<prefix>:{<thread>}:"; all its keys are base, noun, and ":<id>" if need be (keys.py).
-- Keeps    5: nothing is written before save(), which looks at the type of every key before the first write.
--          12: every key begins with KEYS[1].  13: one reading of TIME a script.

local CHUNK = 1000
local base = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function key(noun, id)
  return base .. noun .. (id and ':' .. id or '')
end

local function num(value)
  return tonumber(value) or 0
end

local function text(value)
  return type(value) == 'number' and string.format('%.0f', value) or value
end

-- A record reads a field when it is asked for, and keeps what is set until save(). A field that is not there is '', and
-- one that is set to '' goes; in a record of payloads it stays, for a payload may be empty.
local OWN = {}
local opened = {}

local Record = {
  __index = function(record, field)
    local own = rawget(record, OWN)
    local value = own.seen[field]
    if not value then
      value = not own.complete and redis.call('HGET', own.key, field) or ''
      own.seen[field] = value
    end
    return value
  end,
  __newindex = function(record, field, value)
    local own = rawget(record, OWN)
    value = text(value)
    if own.seen[field] ~= value then
      own.seen[field], own.changed[field] = value, true
    end
  end,
}

local function open(path, has_payloads)
  if not opened[path] then
    opened[path] = setmetatable({ [OWN] = { key = path, seen = {}, changed = {}, has_payloads = has_payloads } }, Record)
  end
  return opened[path]
end

-- Reads many fields in few commands.
local function fetch(record, fields)
  local own = rawget(record, OWN)
  for first = 1, own.complete and 0 or #fields, CHUNK do
    local last = math.min(first + CHUNK - 1, #fields)
    local values = redis.call('HMGET', own.key, unpack(fields, first, last))
    for i = first, last do
      own.seen[fields[i]] = own.seen[fields[i]] or values[i - first + 1] or ''
    end
  end
end

-- Reads the whole record and returns its fields.
local function all_of(record)
  local own = rawget(record, OWN)
  local flat = own.complete and {} or redis.call('HGETALL', own.key)
  for i = 1, #flat, 2 do
    own.seen[flat[i]] = own.seen[flat[i]] or flat[i + 1]
  end
  own.complete = true
  return own.seen
end

-- Takes a field away, also where '' would be a payload.
local function remove(record, field)
  local own = rawget(record, OWN)
  own.seen[field], own.changed[field] = '', 'gone'
end

local function clear(record)
  local own = rawget(record, OWN)
  own.seen, own.changed, own.complete, own.cleared = {}, {}, true, true
end

-- A generation of a list field, from its text: its number, the list that holds its items, and where it was cut out of
-- another one: what of that list it began with (spans), how many that are (kept), what is appended to it lies from start.
local function generation_from(field, raw)
  local number, home, start, spans = raw:match('^(%d+):(%d+):(%d+):(.*)$')
  local found = { number = number or raw, home = home or raw, start = num(start), origin = '', kept = 0, spans = {} }
  found.path = key('list:' .. field, found.home)
  if number then
    found.origin = raw:sub(#number + 2)
    for first, stop in spans:gmatch('(%d+)-(%d+)') do
      found.spans[#found.spans + 1] = { num(first), num(stop) }
      found.kept = found.kept + stop - first
    end
  end
  return found
end

local function generation_of(field)
  return generation_from(field, open(key('lists'))[field])
end

-- How a checkpoint names the generation, and how much of it there was.
local function place_of(generation, length)
  return table.concat({ generation.number, text(length), generation.origin ~= '' and generation.origin or nil }, ':')
end

local function length_of(generation)
  return generation.kept + redis.call('LLEN', generation.path) - generation.start
end

-- The record lives on under another key.
local function move(from, to)
  local record = open(from)
  rawget(record, OWN).target = to
  opened[from], opened[to] = nil, record
end

local writes = {}

local function write(kind, ...)
  writes[#writes + 1] = { kind = kind, ... }
end

local function must_be(path, kind)
  local found = redis.call('TYPE', path).ok
  if found ~= 'none' and found ~= kind then
    error('WRONGTYPE ' .. path .. ' is a ' .. found .. ', not a ' .. kind, 0)
  end
end

local function in_chunks(command, path, args)
  for first = 1, #args, CHUNK do
    redis.call(command, path, unpack(args, first, math.min(first + CHUNK - 1, #args)))
  end
end

local function save_record(own)
  if own.cleared then
    redis.call('UNLINK', own.key)
  elseif own.target and redis.call('EXISTS', own.key) == 1 then
    redis.call('RENAME', own.key, own.target)
  end
  own.key = own.target or own.key
  local set, gone = {}, {}
  for field, how in pairs(own.changed) do
    if own.seen[field] ~= '' or (own.has_payloads and how ~= 'gone') then
      set[#set + 1], set[#set + 2] = field, own.seen[field]
    elseif not own.cleared then
      gone[#gone + 1] = field
    end
  end
  in_chunks('HSET', own.key, set)
  in_chunks('HDEL', own.key, gone)
  own.changed, own.cleared, own.target = {}, nil, nil
end

local function save()
  local dirty = {}
  for _, record in pairs(opened) do
    local own = rawget(record, OWN)
    if own.cleared or own.target or next(own.changed) then
      must_be(own.key, 'hash')
      dirty[#dirty + 1] = own
    end
  end
  for _, command in ipairs(writes) do
    must_be(command[2], command.kind)
  end
  if #dirty + #writes == 0 then
    return
  end
  -- Out of memory, a server refuses the first write of a script if it needs memory, and none after it. So that a script
  -- is refused whole whatever it writes first: this one could need memory, and does nothing, for there is no such list.
  redis.call('RPUSHX', key('none'), '')
  for _, own in ipairs(dirty) do
    save_record(own)
  end
  for _, command in ipairs(writes) do
    redis.call(unpack(command))
  end
  writes = {}
end
