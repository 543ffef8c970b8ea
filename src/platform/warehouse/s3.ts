import { createHash, randomUUID } from "node:crypto";
import { AwsClient } from "aws4fetch";
import type { S3Settings } from "../../config/sections.ts";
import {
  StoreError,
  type StoreErrorOptions,
  type WarehouseStore,
} from "../../domain/analytics/warehouse/store.ts";

/** Time limit of one request with its answer, in ms: also where the connection is half-open. */
const TIMEOUT_MS = 50_000;
/** The longest answer that is read to find out what went wrong. */
const ERROR_CHARACTERS = 10_000;

type Method = "PUT" | "GET" | "HEAD" | "DELETE";
type Asked = { method: Method; path: string; body?: Buffer; signal: AbortSignal | undefined };

const textOf = (error: unknown): string => {
  const { name, message, cause } = error as Error;
  if (name === "TimeoutError") return "no answer in time";
  return cause instanceof Error && cause.message !== "" ? cause.message : message;
};

/** An S3 error says in XML what it is: `<Code>AccessDenied</Code>`. Answers to HEAD do not. */
const codeOf = async (answer: Response): Promise<string> => {
  const text = (await answer.text().catch(() => "")).slice(0, ERROR_CHARACTERS);
  return /<Code>(\w{1,80})<\/Code>/.exec(text)?.[1] ?? "";
};

/** Statuses below 500 that tell of the store or of its key, whatever the file. */
const STATUSES_OF_STORE = new Set([401, 407, 408, 429]);
/** The only errors of status 403 that may be of one file: others are of the key or the account. */
const FORBIDDEN_FILES = new Set(["AccessDenied", "InvalidObjectState"]);
/** Errors of other statuses that are of the key, the region, the bucket or the connection. */
const CODES_OF_STORE = new Set([
  "AuthorizationHeaderMalformed",
  "ExpiredToken",
  "InvalidToken",
  "NoSuchBucket",
  "RequestTimeout",
  "TokenRefreshRequired",
]);
/** An object of an archive class, which is to be restored before it can be read. */
const ARCHIVED = "InvalidObjectState";

/**
 * Whether an answer may tell of one file.
 * See https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
 */
const isOfFile = (status: number, code: string): boolean => {
  if (status === 403) return FORBIDDEN_FILES.has(code);
  return status >= 400 && status < 500 && !STATUSES_OF_STORE.has(status) && !CODES_OF_STORE.has(code);
};

const baseOf = ({ endpoint, bucket, region }: S3Settings): string =>
  endpoint === undefined ? `https://${bucket}.s3.${region}.amazonaws.com` : `${endpoint}/${bucket}`;

/**
 * A warehouse in a bucket, by Signature Version 4 with the hash of each body signed: the store refuses what
 * has arrived otherwise. With an endpoint, the bucket is in the path of addresses.
 */
export const createS3Store = (settings: S3Settings, timeoutMs = TIMEOUT_MS): WarehouseStore => {
  const { accessKeyId, secretAccessKey, region, bucket, prefix } = settings;
  const client = new AwsClient({ accessKeyId, secretAccessKey, region, service: "s3" });
  const name = `s3://${bucket}/${prefix}`;
  const fault = (what: string, options?: StoreErrorOptions): StoreError =>
    new StoreError(`the store ${name} (WAREHOUSE_URL) fails: ${what}`, options);

  /** Reads the whole answer within the time limit; `missing` is what a 404 gives. */
  const request = async <T>(
    { method, path, body, signal }: Asked,
    read: (answer: Response) => Promise<T>,
  ): Promise<T | undefined> => {
    const sha256 = createHash("sha256")
      .update(body ?? "")
      .digest("hex");
    try {
      const signed = await client.sign(`${baseOf(settings)}/${prefix}${path}`, {
        method,
        headers: { "X-Amz-Content-Sha256": sha256 },
        ...(body ? { body: new Uint8Array(body) } : {}),
      });
      const until = AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])]);
      const answer = await fetch(signed, { signal: until, redirect: "manual" });
      if (answer.ok) return await read(answer);
      const code = await codeOf(answer);
      const { status } = answer;
      if (status === 404 && code !== "NoSuchBucket" && method !== "PUT") return undefined;
      const options = { isOfFile: isOfFile(status, code), isArchived: code === ARCHIVED };
      throw fault(`${method} ${path}: ${status} ${code}`.trimEnd(), options);
    } catch (cause) {
      if (cause instanceof StoreError) throw cause;
      throw fault(textOf(cause), { cause });
    }
  };
  const drain = async (answer: Response): Promise<void> => void (await answer.arrayBuffer());

  const store: WarehouseStore = {
    name,
    put: (path, body, signal) => request({ method: "PUT", path, body, signal }, drain),
    size: (path, signal) =>
      request({ method: "HEAD", path, signal }, async ({ headers }) => Number(headers.get("Content-Length"))),
    get: (path, signal) =>
      request({ method: "GET", path, signal }, async (answer) => Buffer.from(await answer.arrayBuffer())),
    remove: (path, signal) => request({ method: "DELETE", path, signal }, drain),
    check: async () => {
      const path = `.laurel-check-${randomUUID()}`;
      const body = Buffer.from("laurel\n");
      await store.put(path, body);
      const size = await store.size(path);
      if (size !== body.length) throw fault("a file that was written is not there");
      await store.remove(path);
      // Refused without the right to list: the store would not say that a file is missing.
      await store.size(path);
    },
  };
  return store;
};
