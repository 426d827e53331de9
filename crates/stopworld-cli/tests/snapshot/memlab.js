// Prints what memlab finds in a .heapsnapshot: a line for each object (self size, retained size, name), in the order of the ids; and, in a second
// file, the retained size and the name of each synthetic node.
const {getFullHeapFromFile} = require(process.argv[2] + '/node_modules/@memlab/heap-analysis');

getFullHeapFromFile(process.argv[3]).then(heap => {
  const [objects, groups] = [[], []];
  heap.nodes.forEach(node => {
    if (node.type === 'synthetic') groups.push(`${node.retainedSize} ${node.name}\n`);
    else objects.push([node.id, node.name, node.self_size, node.retainedSize]);
  });
  objects.sort((a, b) => a[0] - b[0]);
  const text = objects.map(([, name, size, retained]) => `${size} ${retained} ${name.replaceAll("\n", " ")}\n`).join('');
  require('fs').writeFileSync(process.argv[4], text);
  require('fs').writeFileSync(process.argv[4] + '.groups', groups.join(''));
});
