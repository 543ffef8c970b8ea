import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import type { App } from "../../../src/app.ts";
import type { WarehouseStore } from "../../../src/domain/analytics/warehouse/store.ts";
import { createExportWarehouse } from "../../../src/jobs/warehouse.ts";

/** Writes all that there is to write, also what came just now. @throws what the job would log */
export const exportNow = async (app: App, store: WarehouseStore): Promise<void> => {
  const errors: unknown[] = [];
  const log = Object.create(app.log, {
    error: { value: ({ err }: { err: unknown }) => errors.push(err) },
  }) as App["log"];
  const warehouse = { store: async () => store, everyMs: -60_000, lagMs: -60_000 };
  await createExportWarehouse().run({ ...app, log, warehouse }, "*");
  if (errors.length > 0) throw new AggregateError(errors, String(errors[0]));
};

/** The files below a directory, by their path in it; gzip is undone. */
export const filesIn = (root: string): Map<string, string> => {
  const paths = readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  return new Map(
    paths.map((path) => {
      const body = readFileSync(path);
      return [path.slice(root.length + 1), (path.endsWith(".gz") ? gunzipSync(body) : body).toString()];
    }),
  );
};

/** What a test reads of an entry of the manifest. */
type Entry = {
  kind: string;
  path: string;
  rows: number;
  bytes: number;
  sha256: string;
  replaces: string | null;
};

/** The entries of the manifest of a directory, by project and in order. */
export const manifestIn = (root: string): Entry[] => {
  const folder = join(root, "manifest");
  return [...(existsSync(folder) ? filesIn(folder) : [])]
    .filter(([path]) => path.endsWith(".json"))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, text]) => JSON.parse(text) as Entry);
};
