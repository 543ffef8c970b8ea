import { COMMIT_MS } from "../../domain/analytics/rollups/roll-up.ts";
import type { Warehouse } from "../../domain/analytics/warehouse/store.ts";
import { onceLoaded } from "../../domain/kernel/once-loaded.ts";
import { openWarehouseStore } from "./open-store.ts";
import type { Config } from "../../config.ts";

/** Returns where the configuration says that files for a warehouse go; undefined for nowhere. */
export const warehouseOf = ({ warehouse }: Pick<Config, "warehouse">): Warehouse | undefined => {
  if (!warehouse) return undefined;
  return {
    store: onceLoaded(() => openWarehouseStore(warehouse)),
    everyMs: warehouse.everyMs,
    lagMs: COMMIT_MS,
  };
};
