// Prints how the files of src import one another, type imports included: circles of files, cycles between the
// folders of src/domain, and what each folder imports. Exits with 1 when there is a circle of files.
import { circlesOf, type Graph, groupGraph, importGraph } from "../test/support/import-graph.ts";
import { readSourceFiles } from "../test/support/source-files.ts";

const files = readSourceFiles().filter(({ path }) => /^src\/.*\.ts$/.test(path));
const graph = importGraph(files, { types: true });

/** The folder of a file: under src/domain that below it, else that below src. */
const folderOf = (path: string): string => {
  const [, first = "", second = ""] = path.split("/");
  if (first !== "domain") return first.endsWith(".ts") ? "src" : `src/${first}`;
  return second.endsWith(".ts") ? "src/domain" : `src/domain/${second}`;
};

const domainFolderOf = (path: string): string | undefined =>
  /^src\/domain\/[^/]+\//.test(path) ? folderOf(path) : undefined;

const printCircles = (title: string, of: Graph): void => {
  const found = circlesOf(of);
  console.log(`\n${title}: ${found.length === 0 ? "none" : found.length}`);
  for (const circle of found) {
    console.log(`  ${circle.length}:`);
    for (const node of circle) {
      const within = (of.get(node) ?? []).filter((to) => circle.includes(to));
      console.log(`    ${node} -> ${within.join(" ")}`);
    }
  }
};

console.log(`Files in src: ${files.length}`);
printCircles("Circles of files, type imports included", graph);
printCircles(
  "Cycles between folders of src/domain, type imports included",
  groupGraph(graph, domainFolderOf),
);
printCircles(
  "Cycles between folders of src/domain at run time",
  groupGraph(importGraph(files, { types: false }), domainFolderOf),
);

console.log("\nFolders, with their files and the folders that they import:");
const folders = groupGraph(graph, folderOf);
for (const [folder, targets] of [...folders].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
  const size = files.filter(({ path }) => folderOf(path) === folder).length;
  console.log(`  ${folder} (${size}) -> ${targets.join(" ") || "none"}`);
}

process.exit(circlesOf(graph).length > 0 ? 1 : 0);
