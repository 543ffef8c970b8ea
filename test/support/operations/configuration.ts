import { randomInt } from "node:crypto";
import type { Known } from "./operations.ts";

/** Another one each time, so that every import has something to change. */
const document = () => ({
  format: "laurel/1",
  levelCurve: { type: "LINEAR", params: { base: randomInt(1, 1_000_000_000), maxLevel: 5 } },
});

export const configurationOperations: Record<string, Known> = {
  exportConfig: { call: () => ({ path: "/config/export" }) },
  diffConfig: { call: () => ({ path: "/config/diff", body: { document: document(), prune: false } }) },
  importConfig: {
    call: () => ({ path: "/config/import", body: { document: document(), dryRun: false, prune: false } }),
  },
  getProjectSettings: { call: () => ({ path: "/project-settings" }) },
  updateProjectSettings: {
    call: () => ({ path: "/project-settings", body: { maxBoostFactor: 5, lives: { max: 3 } } }),
  },
};
