/**
 * Finds the strongly connected components of a graph that contain a cycle, each a list of node numbers:
 * Tarjan 1972, without recursion so that a long chain cannot exhaust the stack. Time is linear in nodes and
 * edges.
 * @param edges for each node its successors
 */
export const cyclicComponents = (edges: readonly (readonly number[])[]): number[][] => {
  const index = new Int32Array(edges.length).fill(-1);
  const low = new Int32Array(edges.length);
  const isOpen = new Uint8Array(edges.length);
  const stack: number[] = [];
  const found: number[][] = [];
  let next = 0;

  const enter = (node: number): void => {
    index[node] = low[node] = next++;
    stack.push(node);
    isOpen[node] = 1;
  };
  const leave = (node: number): void => {
    if (low[node] !== index[node]) return;
    const component = stack.splice(stack.lastIndexOf(node));
    for (const member of component) isOpen[member] = 0;
    if (component.length > 1 || edges[node]!.includes(node)) found.push(component);
  };
  const visit = (start: number): void => {
    const path: [node: number, edge: number][] = [[start, 0]];
    enter(start);
    while (path.length > 0) {
      const top = path.at(-1)!;
      const [node, edge] = top;
      const target = edges[node]![edge];
      if (target === undefined) {
        path.pop();
        leave(node);
        const above = path.at(-1);
        if (above) low[above[0]] = Math.min(low[above[0]]!, low[node]!);
        continue;
      }
      top[1]++;
      if (index[target] === -1) {
        enter(target);
        path.push([target, 0]);
      } else if (isOpen[target] === 1) {
        low[node] = Math.min(low[node]!, index[target]!);
      }
    }
  };
  for (let node = 0; node < edges.length; node++) if (index[node] === -1) visit(node);
  return found;
};

/** Returns a shortest path from a node back to itself within `allowed` nodes; the node is at both ends. */
export const cycleThrough = (
  edges: readonly (readonly number[])[],
  start: number,
  allowed: ReadonlySet<number>,
): number[] => {
  const from = new Map<number, number>();
  const waiting = [start];
  for (let i = 0; i < waiting.length; i++) {
    const node = waiting[i]!;
    for (const target of edges[node]!) {
      if (target === start) return pathTo(from, node, start);
      if (!allowed.has(target) || from.has(target)) continue;
      from.set(target, node);
      waiting.push(target);
    }
  }
  return [];
};

const pathTo = (from: ReadonlyMap<number, number>, last: number, start: number): number[] => {
  const way = [start];
  for (let node = last; node !== start; node = from.get(node)!) way.unshift(node);
  return [start, ...way];
};
