-- What is kept beside the lock, where the keys for it are given. KEYS[2]: a sorted set with a record of each taking, as JSON,
-- by its token. KEYS[3]: the last token. Neither expires: a token that was forgotten would be drawn again by a clock that was
-- set back, and a policy that evicts what expires leaves them alone.
-- None of it may keep a lock from being taken or given back: the first failure is noted.
local recorded = KEYS[2] ~= nil
local failure
-- 1 if the lock is given back by its owner.
local kept = 0

local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    failure = failure or answer.err
    return nil
  end
  return answer
end

-- The owner's record among those from the rank `first` on; mostly it is the newest.
local function find(first)
  local field = '"owner":' .. cjson.encode(ARGV[1]) .. ','
  local records = try('ZRANGE', KEYS[2], first, -1) or {}
  for rank = #records, 1, -1 do
    if string.find(records[rank], field, 1, true) then return records[rank] end
  end
  return nil
end
