import assert from "node:assert/strict";
import { type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { textOf } from "../documents/documents.ts";
import { blocksOf } from "../documents/steps.ts";

type Row = Record<string, unknown>;

/** A warehouse that is loaded as the guide says, with the statements of the guide. */
export type Warehouse = {
  /** Loads what is fresh. */
  load(): Promise<void>;
  /** Rows of a query. */
  ask(query: string): Promise<Row[]>;
  close(): void;
};

/** The statements of the guide: `once`, `load` or `ask`. */
export const statementsOf = (name: string): string => {
  const found = blocksOf(textOf("docs/guides/warehouse.md")).filter(
    ({ info }) => info === `sql duckdb ${name}`,
  );
  assert.equal(found.length, 1, name);
  return found[0]!.text;
};

/** @param root the directory of the files */
export const openWarehouse = async (root: string): Promise<Warehouse> => {
  const instance = await DuckDBInstance.create(":memory:", { threads: "1" });
  const connection: DuckDBConnection = await instance.connect();
  await connection.run("set timezone = 'UTC'");
  await connection.run(statementsOf("once"));
  const load = statementsOf("load").replace("/var/lib/laurel/warehouse", root);
  return {
    load: async () => {
      try {
        await connection.run(load);
      } catch (error) {
        await connection.run("rollback").catch(() => undefined);
        throw error;
      }
    },
    ask: async (query) => (await connection.runAndReadAll(query)).getRowObjectsJson(),
    close: () => {
      connection.closeSync();
      instance.closeSync();
    },
  };
};
