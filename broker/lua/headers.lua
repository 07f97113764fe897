-- List the entries of one stream with their groups, a page at a time. ARGV: stream, first entry, count. Reads only.
local out = {}
for _, found in ipairs(redis.call('XRANGE', STREAMS[ARGV[1]], ARGV[2], '+', 'COUNT', ARGV[3])) do
  out[#out + 1] = found[1]
  local group = '?'
  for i = 1, #found[2], 2 do
    if found[2][i] == 'group' then group = found[2][i + 1] end
  end
  out[#out + 1] = group
end
return out
