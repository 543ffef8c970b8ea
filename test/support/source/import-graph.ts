import { importsOf, resolveImport, type SourceFile } from "./source-files.ts";

/** Nodes by name, with the names that each points at. */
export type Graph = ReadonlyMap<string, readonly string[]>;

/** The imports among files: all of them, or only those that exist at run time. */
export const importGraph = (files: readonly SourceFile[], { types }: { types: boolean }): Graph => {
  const known = new Set(files.map(({ path }) => path));
  return new Map(
    files.map(({ path, text }) => {
      const kept = importsOf(text).filter(({ isTypeOnly }) => types || !isTypeOnly);
      const targets = kept.map(({ specifier }) => resolveImport(path, specifier));
      return [path, [...new Set(targets.filter((to) => to !== undefined && known.has(to)))] as string[]];
    }),
  );
};

/** The graph of groups of nodes: a group points at another when one of its nodes does. */
export const groupGraph = (graph: Graph, groupOf: (node: string) => string | undefined): Graph => {
  const groups = new Map<string, Set<string>>();
  for (const [node, targets] of graph) {
    const from = groupOf(node);
    if (from === undefined) continue;
    const found = groups.get(from) ?? new Set();
    groups.set(from, found);
    for (const to of targets.map(groupOf)) if (to !== undefined && to !== from) found.add(to);
  }
  return new Map([...groups].map(([name, targets]) => [name, [...targets].toSorted()]));
};

/** Strongly connected components of more than one node, the largest first (Tarjan's algorithm). */
export const circlesOf = (graph: Graph): string[][] => {
  const indexes = new Map<string, number>();
  const lows = new Map<string, number>();
  const stack: string[] = [];
  const circles: string[][] = [];
  const lowOf = (node: string): number => lows.get(node) ?? Infinity;
  const visit = (node: string): void => {
    const index = indexes.size;
    indexes.set(node, index);
    lows.set(node, index);
    stack.push(node);
    for (const next of graph.get(node) ?? []) {
      if (!indexes.has(next)) visit(next);
      if (stack.includes(next)) lows.set(node, Math.min(lowOf(node), lowOf(next)));
    }
    if (lowOf(node) === index) circles.push(stack.splice(stack.indexOf(node)).toSorted());
  };
  for (const node of graph.keys()) if (!indexes.has(node)) visit(node);
  return circles.filter(({ length }) => length > 1).toSorted((a, b) => b.length - a.length);
};
