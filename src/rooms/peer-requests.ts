import { matchMaker } from "@colyseus/core";
import type { App } from "../app.ts";
import { DomainError } from "../domain/kernel/errors.ts";
import { newId } from "../domain/kernel/ids.ts";
import { RESPONSE_TIMEOUT_MS } from "../domain/kernel/live-rooms.ts";
import { answersOf, type Answers } from "./inspect.ts";

type PeerRequest = { id: string; replyTo: string; name: keyof Answers; args: readonly string[] };
type Reply = { id: string; value?: unknown; hasFailed?: true };
type Waiting = { resolve: (value: unknown) => void; reject: (error: Error) => void };

const requestTopic = (processId: string): string => `rooms-question:${processId}`;
const replyTopic = (requester: string): string => `rooms-reply:${requester}`;

const silent = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", `The process did not answer within ${RESPONSE_TIMEOUT_MS} ms`, {
    reason: "PROCESS_SILENT",
    retryAfterSeconds: 1,
  });

const answerRequest = (answers: Answers, { name, args }: PeerRequest): unknown =>
  (answers[name] as (...given: readonly string[]) => unknown)(...args);

/** Answers requests of other processes about the rooms of this one. @returns a function that stops it */
export const answerPeerRequests = (app: App, version: string): Promise<() => void> => {
  const answers = answersOf(app, version);
  return app.topics.subscribe(requestTopic(matchMaker.processId), (request: PeerRequest) => {
    const { id, replyTo } = request;
    if (!Object.hasOwn(answers, request.name)) return;
    let reply: Reply;
    try {
      reply = { id, value: answerRequest(answers, request) };
    } catch (err) {
      app.log.error({ err, question: request.name }, "what a process asked could not be answered");
      reply = { id, hasFailed: true };
    }
    app.topics.publish(replyTopic(replyTo), reply);
  });
};

/** Sends requests to the processes that hold rooms, including this one. */
export class PeerRequester {
  readonly #topics: App["topics"];
  readonly #answers: Answers;
  readonly #id = newId();
  readonly #waiting = new Map<string, Waiting>();
  #listening: Promise<unknown> | undefined;

  constructor(app: Pick<App, "config" | "clock" | "topics">, version: string) {
    this.#topics = app.topics;
    this.#answers = answersOf(app, version);
  }

  /** @throws DomainError SERVICE_UNAVAILABLE PROCESS_SILENT */
  async request<K extends keyof Answers>(
    processId: string,
    name: K,
    ...args: Parameters<Answers[K]>
  ): Promise<ReturnType<Answers[K]>> {
    if (processId === matchMaker.processId)
      return answerRequest(this.#answers, { id: "", replyTo: "", name, args }) as ReturnType<Answers[K]>;
    const id = newId();
    let timer: NodeJS.Timeout | undefined;
    const answered = new Promise<unknown>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      timer = setTimeout(() => reject(silent()), RESPONSE_TIMEOUT_MS);
    });
    void this.#listen().then(
      () => this.#topics.publish(requestTopic(processId), { id, replyTo: this.#id, name, args }),
      // The timeout reports it.
      () => undefined,
    );
    try {
      return (await answered) as ReturnType<Answers[K]>;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(id);
    }
  }

  #listen(): Promise<unknown> {
    this.#listening ??= this.#topics
      .subscribe(replyTopic(this.#id), (reply: Reply) => this.#receive(reply))
      .catch((error: unknown) => {
        this.#listening = undefined;
        throw error;
      });
    return this.#listening;
  }

  #receive({ id, value, hasFailed }: Reply): void {
    const waiting = this.#waiting.get(id);
    if (hasFailed) waiting?.reject(silent());
    else waiting?.resolve(value);
  }
}
