import { fileURLToPath } from "node:url";
import type { Env, Rule } from "./rule.ts";

/** A bucket of an S3-compatible store. */
export type S3Settings = {
  kind: "s3";
  bucket: string;
  /** Before each name: empty, or with a slash at its end. */
  prefix: string;
  /** Without a trailing slash; undefined: that of AWS in the region. */
  endpoint: string | undefined;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
};

/** Where every event and its effects are written for a warehouse. */
export type WarehouseSettings = {
  store: S3Settings | { kind: "directory"; path: string };
  /** How long events of a project are gathered for a file, in ms. */
  everyMs: number;
};

type Given = {
  WAREHOUSE_URL?: string | undefined;
  WAREHOUSE_EVERY_SECONDS: number;
  WAREHOUSE_ENDPOINT?: string | undefined;
  WAREHOUSE_REGION: string;
  WAREHOUSE_ACCESS_KEY_ID?: string | undefined;
  WAREHOUSE_SECRET_ACCESS_KEY?: string | undefined;
};

const withSlash = (path: string): string => (path === "" ? "" : `${path}/`);

/** Returns the settings of the warehouse; undefined: there is none. */
export const warehouseOf = (env: Given): WarehouseSettings | undefined => {
  if (env.WAREHOUSE_URL === undefined) return undefined;
  const everyMs = env.WAREHOUSE_EVERY_SECONDS * 1_000;
  const url = new URL(env.WAREHOUSE_URL);
  if (url.protocol === "file:") return { store: { kind: "directory", path: fileURLToPath(url) }, everyMs };
  const store: S3Settings = {
    kind: "s3",
    bucket: url.hostname,
    prefix: withSlash(url.pathname.replace(/^\/+|\/+$/g, "")),
    endpoint: env.WAREHOUSE_ENDPOINT?.replace(/\/+$/, ""),
    region: env.WAREHOUSE_REGION,
    accessKeyId: env.WAREHOUSE_ACCESS_KEY_ID ?? "",
    secretAccessKey: env.WAREHOUSE_SECRET_ACCESS_KEY ?? "",
  };
  return { store, everyMs };
};

/** A directory of this machine, absolute; or a bucket, with a prefix of plain characters. */
const ADDRESS = /^(file:\/\/\/[^?#]+|s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[\w.=-]+)*\/?)$/;

/** Whether a text is an address of a warehouse. */
export const isWarehouse = (text: string): boolean => ADDRESS.test(text) && URL.canParse(text);

const isBucket = (env: Env): boolean => Boolean(env["WAREHOUSE_URL"]?.startsWith("s3:"));

/** Dependencies between the settings of the warehouse. */
export const WAREHOUSE_RULES: readonly Rule[] = (
  ["WAREHOUSE_ACCESS_KEY_ID", "WAREHOUSE_SECRET_ACCESS_KEY"] as const
).map((name) => ({
  name,
  breaks: (env) => isBucket(env) && env[name] === undefined,
  message: "is required when WAREHOUSE_URL is a bucket",
}));
