import assert from "node:assert/strict";
import type {
  WebhookOutcome,
  WebhookSender,
} from "../../../src/domain/delivery/webhooks/delivering/sender.ts";
import { createWebhookSender } from "../../../src/platform/webhook-sender.ts";
import { type RawEndpoint, type Respond, startRawEndpoint } from "./raw-endpoint.ts";

/** Stands in the path of every request. */
const SECRET = "s3cret-in-the-path";
export const PATH = `/hook/${SECRET}?a=1`;

type Given = { headers?: Record<string, string>; body?: string; timeoutMs?: number; signal?: AbortSignal };

/** A sender of webhooks as in development, with endpoints that are closed when it is. */
export type TrialSender = {
  sender: WebhookSender;
  endpoints: RawEndpoint[];
  startEndpoint(respond?: Respond): Promise<RawEndpoint>;
  sendTo(endpoint: { port: number }, given?: Given): Promise<WebhookOutcome>;
  /** What comes of an endpoint that answers so; nothing of the request may show in the error. */
  outcomeOf(respond: Respond, given?: Given): Promise<WebhookOutcome>;
  close(): Promise<void>;
};

export const trialSender = (): TrialSender => {
  const sender = createWebhookSender({ allowCidrs: [], ports: [443], allowLocal: true });
  const endpoints: RawEndpoint[] = [];
  const trial: TrialSender = {
    sender,
    endpoints,
    startEndpoint: async (respond) => {
      const endpoint = await startRawEndpoint(respond);
      endpoints.push(endpoint);
      return endpoint;
    },
    sendTo: ({ port }, given = {}) =>
      sender.send({
        url: `http://127.0.0.1:${port}${PATH}`,
        headers: { "content-type": "application/json" },
        body: '{"a":"ü"}',
        timeoutMs: 5_000,
        ...given,
      }),
    outcomeOf: async (respond, given) => {
      const outcome = await trial.sendTo(await trial.startEndpoint(respond), given);
      assert.doesNotMatch(outcome.error ?? "", new RegExp(`${SECRET}|127\\.0\\.0\\.1|/hook`));
      return outcome;
    },
    close: async () => {
      await sender.close();
      await Promise.all(endpoints.splice(0).map((one) => one.close()));
    },
  };
  return trial;
};

/** Answers with these bytes, each a character. */
export const says =
  (text: string): Respond =>
  (socket) =>
    void socket.write(text, "latin1");
