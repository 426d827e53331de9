// Loads a heap snapshot as DevTools does, in a page of DevTools. Returns "missing" if this version has other parts, or the size and the
// retained size of each node.
(async (text) => {
  const parts = await import("devtools://devtools/bundled/entrypoints/heap_snapshot_worker/heap_snapshot_worker.js").catch(() => ({}));
  const Dispatcher = parts.HeapSnapshotWorkerDispatcher?.HeapSnapshotWorkerDispatcher;
  const Loader = parts.HeapSnapshotLoader?.HeapSnapshotLoader;
  if (!Dispatcher || !Loader?.prototype.buildSnapshot) return "missing";
  const loader = new Loader(new Dispatcher(() => {}));
  for (let at = 0; at < text.length; at += 100_000) loader.write(text.slice(at, at + 100_000));
  loader.close();
  await loader.parsingComplete;
  // DevTools compute a part in a second worker.
  const channel = new MessageChannel();
  new Dispatcher(() => {}).dispatchMessage({ data: { disposition: "setupForSecondaryInit", objectId: 1, callId: 1 }, ports: [channel.port2] });
  const snapshot = await loader.buildSnapshot(channel.port1);
  const nodes = Array.from({ length: snapshot.nodeCount }, (_, index) => snapshot.createNode(index * snapshot.nodeFieldCount));
  return nodes.map((node) => [node.name(), node.selfSize(), node.retainedSize()]);
})
