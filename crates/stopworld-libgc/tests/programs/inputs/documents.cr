require "csv"
require "json"
require "socket"
require "uri"
require "xml"
require "yaml"

server = TCPServer.new("localhost", 0)
spawn { server.accept?.try &.puts JSON.parse("[1]").to_yaml }
table = CSV.parse("one,two")
document = XML.parse("<one/>")
address = URI.parse("http://localhost")

