-- The records and the token beside the lock, if the call has their keys. KEYS[2]: a sorted set with a record of each
-- taking, as JSON, by its token. KEYS[3]: the last token. Neither expires: a clock that was set back would draw a
-- forgotten token again, and a policy that evicts expiring keys leaves them alone. An error on them must not prevent
-- a taking or a release: `failure` is the first such error.
local recorded = KEYS[2] ~= nil
local failure
-- Set to 1 if the owner releases its lock.
local kept = 0

local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    failure = failure or answer.err
    return nil
  end
  return answer
end

-- Finds the owner's record among those from the rank `first` on; mostly it is the newest.
local function find(first)
  local field = '"owner":' .. cjson.encode(ARGV[1]) .. ','
  local records = try('ZRANGE', KEYS[2], first, -1) or {}
  for rank = #records, 1, -1 do
    if string.find(records[rank], field, 1, true) then return records[rank] end
  end
  return nil
end
