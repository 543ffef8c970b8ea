import { Alert, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { tell, tellError, useGo, useProject, useRead } from "../api/hooks.ts";
import type { Answer } from "../api/client.ts";
import { number } from "../format.ts";
import { OneOf } from "../ui/filters.tsx";
import { act, ask, create, form } from "../ui/operations.tsx";
import { Copyable, Json, Page, Section, Status, When } from "../ui/page.tsx";
import { List, PlainTable, Rows } from "../ui/table.tsx";
import { Facts } from "../ui/cells.tsx";

export const Webhooks = () => {
  const { id: projectId } = useProject();
  return (
    <Page
      title="Webhooks"
      about="Signed requests to your own systems when something happens."
      actions={create("createWebhook", "New webhook", {
        first: ["url", "events", "description"],
        initial: { events: ["*"], projectId },
        secret: ["secret", "The secret that signs the requests"],
      })}
    >
      <List
        id="listWebhooks"
        to={(row) => `/webhooks/${row.id}`}
        empty="No webhooks yet"
        hint="Your backend hears of level-ups, badges and closed boards within a second."
        columns={{
          Address: "url",
          Events: "events",
          Status: "status",
          "Last success": "lastSuccessAt",
          "Last failure": "lastFailureAt",
        }}
        wide={["Events", "Last failure"]}
      />
      <Rows
        section="Events that webhooks are sent"
        id="listWebhookEventTypes"
        columns={{ Event: "type", When: "occurs" }}
        dialog={[({ type }) => type, ({ example }) => (example ? <Json value={example} /> : "No example")]}
      />
      <Verify />
    </Page>
  );
};

/** How a receiver checks that a request is from here. */
const SNIPPETS = {
  Node: `import { createHmac, timingSafeEqual } from "node:crypto";

export const isFromLaurel = (rawBody, headers, secret) => {
  const signed = \`\${headers["webhook-id"]}.\${headers["webhook-timestamp"]}.\${rawBody}\`;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const expected = createHmac("sha256", key).update(signed).digest();
  const isFresh = Math.abs(Date.now() / 1000 - Number(headers["webhook-timestamp"])) < 300;
  return isFresh && headers["webhook-signature"].split(" ").some((one) => {
    const given = Buffer.from(one.replace(/^v1,/, ""), "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
};`,
  Python: `import base64, hashlib, hmac, time

def is_from_laurel(raw_body: bytes, headers, secret: str) -> bool:
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + raw_body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    fresh = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return fresh and any(
        hmac.compare_digest(one.removeprefix("v1,"), expected)
        for one in headers["webhook-signature"].split(" "))`,
};

const LANGUAGES = { Node: "Node", Python: "Python" };

const Verify = () => {
  const [language, setLanguage] = useState<keyof typeof SNIPPETS>("Node");
  return (
    <Section
      title="Verify the signature"
      actions={<OneOf label="Language" of={LANGUAGES} value={language} onChange={setLanguage} />}
    >
      <Copyable value={SNIPPETS[language]} />
    </Section>
  );
};

export const WebhookPage = ({ id }: { id: string }) => {
  const path = { webhookId: id };
  const webhook = useRead("getWebhook", { path });
  const { url, events, description, disabledReason } = webhook;
  const go = useGo();
  const tested = ({ success, error, responseCode, durationMs }: Answer<"testWebhook">) => {
    const answered = `It answered ${responseCode} in ${number(durationMs)} ms`;
    if (success) tell(answered);
    else tellError(new Error(error ?? answered));
  };
  return (
    <Page
      title={url}
      parent={["Webhooks", "/webhooks"]}
      actions={[
        act("testWebhook", "Send a test", { path, body: {}, onDone: tested, isMain: true }),
        form("updateWebhook", "Change", {
          path,
          first: ["url", "events", "description", "status"],
          initial: { url, events, description },
        }),
        form("rotateWebhookSecret", "New secret", {
          path,
          about:
            "The old one goes on signing beside the new one for the grace period, so that nothing is lost.",
          submit: "Make a new secret",
          secret: ["secret", "The new secret"],
        }),
        form("recoverWebhook", "Send missed events", {
          path,
          initial: { since: new Date(Date.now() - 86_400_000).toISOString() },
          submit: "Send",
          done: "They are on their way",
        }),
        ask("deleteWebhook", "Remove", {
          path,
          title: "Remove this webhook?",
          onDone: () => go("/webhooks"),
          text: "It hears of nothing any more, and its deliveries go.",
        }),
      ]}
    >
      {disabledReason && <Alert color="red" title={disabledReason} />}
      <Facts
        of={webhook}
        show={{
          Status: "status",
          Events: "events",
          Secret: ({ secretHint }) => `${secretHint}…`,
          "Last success": "lastSuccessAt",
          "Last failure": "lastFailureAt",
          "Failing since": ({ failingSince }) => <When at={failingSince} />,
        }}
      />
      <List
        section="Deliveries"
        id="listWebhookDeliveries"
        path={path}
        filters={["status", "eventType", "from", "to"]}
        refetchInterval={5_000}
        empty="Nothing was sent yet"
        dialog={["Delivery", (row) => <Delivery webhookId={id} deliveryId={row.id} />]}
        columns={{
          When: "createdAt",
          Event: ({ eventType, isTest }) => `${eventType}${isTest ? " (test)" : ""}`,
          Status: ({ status }) => <Status value={STATUS[status]} />,
          Answer: ({ responseCode, error }) => String(responseCode ?? error ?? "–"),
          ms: "durationMs",
          Retries: "retryCount",
        }}
        wide={["Retries"]}
        actions={({ id: deliveryId, status, isTest }) =>
          status === "failed" && !isTest && sendAgain({ ...path, deliveryId })
        }
      />
      <Verify />
    </Page>
  );
};

type DeliveryPath = { webhookId: string; deliveryId: string };

const sendAgain = (path: DeliveryPath, isMain = false) =>
  act("retryWebhookDelivery", "Send again", { path, body: {} as never, done: "It is sent again", isMain });

const STATUS = { pending: "PENDING", success: "DELIVERED", failed: "FAILED" };

const Delivery = (path: DeliveryPath) => {
  const { status, isTest, attempts, payload } = useRead("getWebhookDelivery", { path });
  return (
    <Stack>
      <Group justify="space-between">
        <Status value={STATUS[status]} />
        {status !== "pending" && !isTest && sendAgain(path, true)}
      </Group>
      <PlainTable
        name="Attempts"
        rows={attempts}
        columns={{
          Attempt: "attempt",
          When: ({ at }) => <When at={at} />,
          Answer: ({ responseCode, error }) => String(responseCode ?? error ?? "–"),
          ms: "durationMs",
          Body: "responseBody",
        }}
      />
      <Text fw={600}>What was sent</Text>
      <Json value={payload} />
    </Stack>
  );
};
