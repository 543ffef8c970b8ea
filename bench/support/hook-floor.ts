// The least that deliveries take: signed POSTs over kept connections, nothing looked up, checked or recorded.
import { createHmac } from "node:crypto";
import { Agent, request } from "node:http";

export type FloorJob = { port: number; body: string; inFlight: number; count: number };
export type FloorResult = { seconds: number; cpuSeconds: number };

const SECRET = "a-secret-of-the-owner-1234";

const post = (agent: Agent, { port, body }: FloorJob): Promise<void> =>
  new Promise((resolve, reject) => {
    const signature = createHmac("sha256", SECRET).update(body).digest("hex");
    const headers = {
      "Content-Type": "application/json",
      "Content-Length": Buffer.byteLength(body),
      "X-Service-Signature": `sha256=${signature}`,
    };
    const options = { agent, host: "127.0.0.1", port, path: "/ok/0", method: "POST", headers };
    const sent = request(options, (response) => {
      response.resume();
      response.on("end", resolve);
    });
    sent.on("error", reject);
    sent.end(body);
  });

const run = async (job: FloorJob): Promise<FloorResult> => {
  const agent = new Agent({ keepAlive: true, maxSockets: job.inFlight });
  let left = job.count;
  const [startMs, startCpu] = [performance.now(), process.cpuUsage()];
  const lane = async (): Promise<void> => {
    while (left-- > 0) await post(agent, job);
  };
  await Promise.all(Array.from({ length: job.inFlight }, lane));
  const seconds = (performance.now() - startMs) / 1000;
  const { user, system } = process.cpuUsage(startCpu);
  agent.destroy();
  return { seconds, cpuSeconds: (user + system) / 1e6 };
};

process.on("message", (job: FloorJob) => void run(job).then((result) => process.send?.(result)));
process.on("disconnect", () => process.exit(0));
process.send?.("ready");
