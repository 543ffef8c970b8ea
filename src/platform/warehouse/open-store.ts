import type { WarehouseSettings } from "../../config/warehouse.ts";
import type { WarehouseStore } from "../../domain/analytics/warehouse/store.ts";
import { createDirectoryStore } from "./directory.ts";

/** Opens the store of a warehouse; connects to nothing. */
export const openWarehouseStore = async ({ store }: WarehouseSettings): Promise<WarehouseStore> => {
  if (store.kind === "directory") return createDirectoryStore(store.path);
  // Loaded here: most servers have no warehouse.
  const { createS3Store } = await import("./s3.ts");
  return createS3Store(store);
};
