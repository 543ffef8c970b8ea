import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, openSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { StoreError } from "../../src/domain/analytics/warehouse/store.ts";
import { createDirectoryStore } from "../../src/platform/warehouse/directory.ts";
import { createS3Store } from "../../src/platform/warehouse/s3.ts";
import { startTcpProxy } from "../support/faults/tcp-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { temporaryDir } from "../support/processes/process.ts";
import { filesIn } from "../support/warehouse/stage.ts";
import { startS3Server } from "../support/warehouse/s3-server.ts";
import { madeOnce } from "../support/made.ts";

const PATH = "events/project_id=0198/date=2026-11-26/hour=14/part-a-b.ndjson";

const fails = (run: Promise<unknown>, message: RegExp): Promise<void> =>
  assert.rejects(run, (error: unknown) => {
    assert.ok(error instanceof StoreError, String(error));
    assert.match(error.message, message);
    return true;
  });

describe("stores of a warehouse", () => {
  describe("a directory", () => {
    let dir: Awaited<ReturnType<typeof temporaryDir>>;
    beforeEach(async () => {
      dir = await temporaryDir();
    });
    afterEach(() => dir.remove());

    it("keeps files whole, and nothing else", async () => {
      const store = createDirectoryStore(dir.path);
      assert.equal(await store.size(PATH), undefined);
      assert.equal(await store.get(PATH), undefined);
      await store.put(PATH, Buffer.from("one"));
      await store.put(PATH, Buffer.from("other"));
      assert.deepEqual([await store.size(PATH), String(await store.get(PATH))], [5, "other"]);
      await store.check();
      assert.deepEqual([...filesIn(dir.path).keys()], [PATH]);
      await store.remove(PATH);
      await store.remove(PATH);
      assert.deepEqual([...filesIn(dir.path)], []);
    });

    it("that hangs keeps one thread of the process, and works again when it answers", async () => {
      // Whoever opens a pipe waits for its other end.
      const pipe = join(dir.path, "pipe");
      assert.equal(spawnSync("mkfifo", [pipe]).status, 0);
      const store = createDirectoryStore(dir.path, 200);
      try {
        await fails(store.get("pipe"), /no answer within 200 ms/);
        for (let n = 0; n < 8; n++) await fails(store.get("pipe"), /does not answer/);
        await fails(store.put(PATH, Buffer.from("one")), /does not answer/);
        let packed: Buffer | undefined;
        void promisify(gzip)("what other parts of the server do").then((bytes) => (packed = bytes));
        await eventually(() => packed, { label: "threads are left" });
      } finally {
        closeSync(openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK));
      }
      await eventually(async () => {
        await store.put(PATH, Buffer.from("one"));
        return true;
      });
      assert.equal(await store.size(PATH), 3);
    });

    it("says what may be of one file, and what is of all of it", async () => {
      const store = createDirectoryStore(dir.path);
      await store.put("folder/file", Buffer.from("one"));
      const faultOf = async (run: Promise<unknown>) => {
        const error = await run.then(String, (cause: unknown) => cause);
        assert.ok(error instanceof StoreError, String(error));
        return error.isOfFile;
      };
      assert.equal(await faultOf(store.get("folder")), true);
      assert.equal(await faultOf(store.get("folder/file/part")), false);
      assert.equal(await faultOf(store.remove("folder/file/part")), false);
    });

    it("says that it is none", async () => {
      await createDirectoryStore(dir.path).put("file", Buffer.from(""));
      const store = createDirectoryStore(`${dir.path}/file`);
      await fails(store.check(), /file \(WAREHOUSE_URL\) fails: it is not a directory/);
    });
  });

  describe("a bucket", () => {
    const server = madeOnce(
      () => startS3Server(),
      (made) => made.stop(),
    );

    it("keeps files whole, and nothing else", async () => {
      const store = createS3Store(server.settings);
      assert.equal(await store.size(PATH), undefined);
      assert.equal(await store.get(PATH), undefined);
      await store.put(PATH, Buffer.from("one"));
      await store.put(PATH, Buffer.from([0, 255, 10]));
      assert.deepEqual([await store.size(PATH), await store.get(PATH)], [3, Buffer.from([0, 255, 10])]);
      await store.check();
      await store.remove(PATH);
      await store.remove(PATH);
      assert.equal(await store.size(PATH), undefined);
    });

    it("refuses a wrong key and a bucket that is not there, and the error says which", async () => {
      const wrong = createS3Store({ ...server.settings, secretAccessKey: "not-the-secret" });
      await fails(wrong.check(), /s3:\/\/warehouse\/laurel\/.* 403 SignatureDoesNotMatch$/);
      await fails(wrong.size(PATH), /403/);
      const unknown = createS3Store({ ...server.settings, accessKeyId: "nobody" });
      await fails(unknown.check(), /403 InvalidAccessKeyId/);
      const none = createS3Store({ ...server.settings, bucket: "no-such-bucket" });
      await fails(none.check(), /404/);
    });

    it("says which answers may be of one object, and which are of the store or of its key", async () => {
      let next = { status: 500, code: "" };
      const answering = createServer((request, response) => {
        request.resume().on("end", () => {
          response.writeHead(next.status, { "Content-Type": "application/xml" });
          response.end(next.code && `<Error><Code>${next.code}</Code></Error>`);
        });
      }).listen(0, "127.0.0.1");
      await once(answering, "listening");
      const endpoint = `http://127.0.0.1:${(answering.address() as AddressInfo).port}`;
      const store = createS3Store({ ...server.settings, endpoint });
      for (const [answer, isOfFile, isArchived] of [
        ["403 InvalidObjectState", true, true],
        ["403 AccessDenied", true, false],
        ["405 MethodNotAllowed", true, false],
        ["409 OperationAborted", true, false],
        ["403 InvalidAccessKeyId", false, false],
        ["403 SignatureDoesNotMatch", false, false],
        ["403 RequestTimeTooSkewed", false, false],
        ["403", false, false],
        ["400 ExpiredToken", false, false],
        ["400 RequestTimeout", false, false],
        ["404 NoSuchBucket", false, false],
        ["301 PermanentRedirect", false, false],
        ["429 TooManyRequests", false, false],
        ["500 InternalError", false, false],
        ["503 SlowDown", false, false],
        ["504", false, false],
      ] as const) {
        const [status, code = ""] = answer.split(" ");
        next = { status: Number(status), code };
        for (const run of [store.get(PATH), store.remove(PATH)])
          await assert.rejects(run, (error: unknown) => {
            assert.ok(error instanceof StoreError, String(error));
            assert.ok(error.message.endsWith(`: ${answer}`), error.message);
            assert.deepEqual([error.isOfFile, error.isArchived], [isOfFile, isArchived], answer);
            return true;
          });
      }
      answering.closeAllConnections();
      answering.close();
    });

    it("that hangs, or to which the connection is half-open, is given up in time", async () => {
      const proxy = await startTcpProxy("127.0.0.1", server.port);
      const endpoint = `http://127.0.0.1:${proxy.port}`;
      const store = createS3Store({ ...server.settings, endpoint }, 300);
      try {
        await createS3Store({ ...server.settings, endpoint }).put(PATH, Buffer.from("one"));
        for (const break_ of [proxy.hang, proxy.halfOpen]) {
          break_();
          await fails(store.put(PATH, Buffer.from("two")), /no answer in time/);
          await fails(store.get(PATH), /no answer in time/);
          await proxy.restore();
        }
        await proxy.cut();
        await fails(store.get(PATH), /ECONNREFUSED/);
      } finally {
        await proxy.stop();
      }
    });

    it("is sent the hash of each body, signed for the region", async () => {
      const seen: IncomingMessage[] = [];
      const receiver = createServer((request, response) => {
        seen.push(request);
        request.resume().on("end", () => response.end());
      }).listen(0, "127.0.0.1");
      await once(receiver, "listening");
      const endpoint = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
      await createS3Store({ ...server.settings, endpoint, region: "eu-west-9" }).put(
        PATH,
        Buffer.from("one"),
      );
      const [request] = seen;
      assert.ok(request);
      assert.equal(request.url, `/warehouse/laurel/${PATH}`);
      const { authorization = "", "x-amz-content-sha256": hash } = request.headers;
      assert.match(authorization, /Credential=S3RVER\/\d{8}\/eu-west-9\/s3\/aws4_request/);
      assert.match(authorization, /SignedHeaders=host;x-amz-content-sha256;x-amz-date/);
      assert.equal(hash, "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed");
      receiver.close();
    });
  });
});
