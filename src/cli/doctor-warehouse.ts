import type { Settings } from "../config.ts";
import { openWarehouseStore } from "../platform/warehouse/directory.ts";
import type { Check } from "./doctor-checks.ts";

const NAME = "Warehouse";

/** Writes and removes a file where events are written for a warehouse; nothing without one. */
export const checkWarehouse = async ({ warehouse }: Settings): Promise<Check[]> => {
  if (!warehouse) return [];
  const store = await openWarehouseStore(warehouse);
  try {
    await store.check();
    return [{ name: NAME, status: "ok", message: `${store.name}, writable` }];
  } catch (error) {
    const remedy =
      warehouse.store.kind === "directory"
        ? "give the user of the workers the rights to it, and space; or set WAREHOUSE_URL to another one"
        : "check WAREHOUSE_URL, WAREHOUSE_ENDPOINT, WAREHOUSE_REGION, the key, and what it is allowed to do";
    return [{ name: NAME, status: "fail", message: (error as Error).message, remedy }];
  }
};
