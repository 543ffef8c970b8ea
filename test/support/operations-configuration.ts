import type { Known } from "./operations.ts";

const document = () => ({ format: "laurel/1", settings: { tracesDays: 8 } });

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
