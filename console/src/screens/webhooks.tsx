import { Accordion, Alert, Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useApi, useGo, useProject } from "../api/hooks.ts";
import type { Answer } from "../api/client.ts";
import { number } from "../format.ts";
import { act, ask, create, form } from "../ui/operations.tsx";
import { Copyable, Json, Loaded, Named, Page, Read, SecretOnce, Section, Status, When } from "../ui/page.tsx";
import { List, PlainTable } from "../ui/table.tsx";
import { Facts } from "../ui/cells.tsx";

export const Webhooks = () => {
  const { id } = useProject();
  const [secret, setSecret] = useState<string>();
  return (
    <Page
      title="Webhooks"
      about="Signed requests to your own systems when something happens."
      actions={create("createWebhook", "New webhook", {
        first: ["url", "events", "description"],
        initial: { events: ["*"], projectId: id },
        onDone: (answer) => setSecret(answer.secret),
      })}
    >
      {secret && (
        <SecretOnce title="The secret that signs the requests" value={secret}>
          <Verify />
        </SecretOnce>
      )}
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
      <Section title="Events that webhooks are sent">
        <Types />
      </Section>
    </Page>
  );
};

const Types = () => (
  <Read id="listWebhookEventTypes">
    {({ data }) => (
      <Accordion variant="separated">
        {data.map(({ type, occurs, example }) => (
          <Accordion.Item key={type} value={type}>
            <Accordion.Control>
              <Named name={type} more={occurs} />
            </Accordion.Control>
            <Accordion.Panel>{example ? <Json value={example} /> : <Text>No example</Text>}</Accordion.Panel>
          </Accordion.Item>
        ))}
      </Accordion>
    )}
  </Read>
);

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

const Verify = () => {
  const [language, setLanguage] = useState<keyof typeof SNIPPETS>("Node");
  return (
    <Stack gap="xs">
      <SegmentedControl
        data={Object.keys(SNIPPETS)}
        value={language}
        onChange={(next) => setLanguage(next as keyof typeof SNIPPETS)}
        w="fit-content"
        size="xs"
        aria-label="Language"
      />
      <Copyable value={SNIPPETS[language]} />
    </Stack>
  );
};

export const WebhookPage = ({ id }: { id: string }) => {
  const path = { webhookId: id };
  const webhook = useApi("getWebhook", { path });
  const go = useGo();
  const [tested, setTested] = useState<Answer<"testWebhook">>();
  const [secret, setSecret] = useState<string>();
  const data = webhook.data;
  return (
    <Page
      title={data?.url ?? "Webhook"}
      parent={["Webhooks", "/webhooks"]}
      actions={
        data && [
          act("testWebhook", "Send a test", { path, body: {}, onDone: setTested, isMain: true }),
          form("updateWebhook", "Change", {
            path,
            first: ["url", "events", "description", "status"],
            initial: { url: data.url, events: data.events, description: data.description ?? undefined },
          }),
          form("rotateWebhookSecret", "New secret", {
            path,
            about:
              "The old one goes on signing beside the new one for the grace period, so that nothing is lost.",
            submit: "Make a new secret",
            done: "",
            onDone: (answer) => setSecret(answer.secret),
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
        ]
      }
    >
      {secret && <SecretOnce title="The new secret" value={secret} />}
      {tested && <Tested tested={tested} onClose={() => setTested(undefined)} />}
      <Loaded query={webhook}>
        {(found) => (
          <>
            {found.disabledReason && <Alert color="red" title={found.disabledReason} />}
            <Facts
              of={found}
              show={{
                Status: "status",
                Events: "events",
                Secret: ({ secretHint }) => `${secretHint}…`,
                "Last success": "lastSuccessAt",
                "Last failure": "lastFailureAt",
                "Failing since": ({ failingSince }) => <When at={failingSince} />,
              }}
            />
          </>
        )}
      </Loaded>
      <Section title="Deliveries">
        <Deliveries webhookId={id} />
      </Section>
      <Section title="Verify the signature">
        <Verify />
      </Section>
    </Page>
  );
};

const Tested = ({ tested, onClose }: { tested: Answer<"testWebhook">; onClose: () => void }) => {
  const answered = `It answered ${tested.responseCode}`;
  return (
    <Alert
      color={tested.success ? "teal" : "red"}
      title={tested.success ? `${answered} in ${number(tested.durationMs)} ms` : (tested.error ?? answered)}
      withCloseButton
      closeButtonLabel="Close"
      onClose={onClose}
    >
      {tested.responseBody}
    </Alert>
  );
};

type DeliveryPath = { webhookId: string; deliveryId: string };

const Deliveries = ({ webhookId }: { webhookId: string }) => (
  <List
    id="listWebhookDeliveries"
    path={{ webhookId }}
    filters={["status", "eventType", "from", "to"]}
    refetchInterval={5_000}
    empty="Nothing was sent yet"
    dialog={["Delivery", ({ id }) => <Delivery webhookId={webhookId} deliveryId={id} />]}
    columns={{
      When: "createdAt",
      Event: ({ eventType, isTest }) => `${eventType}${isTest ? " (test)" : ""}`,
      Status: ({ status }) => <Status value={STATUS[status]} />,
      Answer: ({ responseCode, error }) => String(responseCode ?? error ?? "–"),
      ms: "durationMs",
      Retries: "retryCount",
    }}
    wide={["Retries"]}
    actions={({ id, status, isTest }) =>
      status === "failed" && !isTest && <SendAgain path={{ webhookId, deliveryId: id }} />
    }
  />
);

const SendAgain = ({ path, isMain = false }: { path: DeliveryPath; isMain?: boolean }) =>
  act("retryWebhookDelivery", "Send again", { path, body: {} as never, done: "It is sent again", isMain });

const STATUS = { pending: "PENDING", success: "DELIVERED", failed: "FAILED" };

const Delivery = (path: DeliveryPath) => (
  <Read id="getWebhookDelivery" given={{ path }}>
    {(data) => (
      <Stack>
        <Group justify="space-between">
          <Status value={STATUS[data.status]} />
          {data.status !== "pending" && !data.isTest && <SendAgain path={path} isMain />}
        </Group>
        <PlainTable
          name="Attempts"
          rows={data.attempts}
          columns={{
            Attempt: "attempt",
            When: ({ at }) => <When at={at} />,
            Answer: ({ responseCode, error }) => String(responseCode ?? error ?? "–"),
            ms: "durationMs",
            Body: "responseBody",
          }}
        />
        <Text fw={600}>What was sent</Text>
        <Json value={data.payload} />
      </Stack>
    )}
  </Read>
);
