class Node
  property left : Node?
  property right : Node?
end

class Leaf < Node
  property name = "leaf"
end

def make(depth) : Node
  return Leaf.new if depth == 0
  node = Node.new
  node.left = make(depth - 1)
  node.right = make(depth - 1)
  node
end

tree = make(10)
puts tree
