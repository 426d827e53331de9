// Prints what memlab finds in a .heapsnapshot: a line for each object (name, self size, retained size), in the order of the ids.
const {getFullHeapFromFile} = require(process.argv[2] + '/node_modules/@memlab/heap-analysis');

getFullHeapFromFile(process.argv[3]).then(heap => {
  const objects = [];
  heap.nodes.forEach(node => {
    if (node.type !== 'synthetic') objects.push([node.id, node.name, node.self_size, node.retainedSize]);
  });
  objects.sort((a, b) => a[0] - b[0]);
  const text = objects.map(([, name, size, retained]) => `${size} ${retained} ${name.replaceAll("\n", " ")}\n`).join('');
  require('fs').writeFileSync(process.argv[4], text);
});
