// Prints how the files of src import one another, type imports included: circles of files, the districts of
// src/domain with their sizes and what they import, and the other folders. Exits with 1 where there is a
// circle of files, or an import that the order of the districts does not allow.
import {
  circlesOf,
  districtOf,
  DISTRICTS,
  districtViolations,
  groupGraph,
  importGraph,
  impureEvaluation,
  readSourceFiles,
} from "../test/support/source/source-files.ts";

const files = readSourceFiles().filter(({ path }) => /^src\/.*\.ts$/.test(path));
const graph = importGraph(files, { types: true });

/** The folder below src that a file is in; "src" for a file that is in none. */
const layerOf = (path: string): string => {
  const [, first = ""] = path.split("/");
  return first.endsWith(".ts") ? "src" : first;
};

/** One line for each group: its name, its number of files, the groups that it imports. */
const printGroups = (groupOf: (path: string) => string | undefined, names: Iterable<string>): void => {
  const arrows = groupGraph(graph, groupOf);
  for (const name of names) {
    const size = files.filter(({ path }) => groupOf(path) === name).length;
    console.log(`  ${`${name} (${size})`.padEnd(24)} -> ${arrows.get(name)?.join(" ") || "none"}`);
  }
};

const circles = circlesOf(graph);
console.log(`Files in src: ${files.length}. Circles of files: ${circles.length}.`);
for (const circle of circles) console.log(`  ${circle.join(", ")} import one another`);

console.log("\nDistricts of src/domain, each with what it imports; all of it stands above it:");
printGroups(districtOf, DISTRICTS.keys());
console.log(`Cycles between districts: ${circlesOf(groupGraph(graph, (path) => districtOf(path))).length}.`);

console.log("\nFolders of src:");
printGroups(layerOf, [...new Set(files.map(({ path }) => layerOf(path)))].toSorted());

const broken = [...districtViolations(graph), ...impureEvaluation(files)];
console.log(`\nImports against the order: ${broken.length}.`);
for (const one of broken) console.log(`  ${one}`);
process.exit(circles.length + broken.length > 0 ? 1 : 0);
