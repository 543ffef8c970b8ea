import { Act } from "../ui/act.tsx";
import { Accordion, Alert, Group, Modal, SegmentedControl, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useProject, useTo } from "../app/project.ts";
import type { Answer } from "../api/client.ts";
import { useAct, useApi } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { number } from "../format.ts";
import { FormButton } from "../ui/form.tsx";
import { Empty, Loaded, Page } from "../ui/page.tsx";
import { Confirm, Copyable, Facts, Json, SecretOnce, Section, Status, When } from "../ui/small.tsx";
import { List, PlainTable, useOpen } from "../ui/table.tsx";

const FIRST = ["url", "events", "description"];

export const Webhooks = () => {
  const to = useTo();
  const can = useCan();
  const { id } = useProject();
  const open = useOpen<{ id: string }>((row) => to(`/webhooks/${row.id}`));
  const [secret, setSecret] = useState<{ id: string; secret: string }>();
  const create = can("createWebhook") && (
    <FormButton
      id="createWebhook"
      label="New webhook"
      first={FIRST}
      initial={{ events: ["*"], projectId: id }}
      done="Created"
      onDone={setSecret}
    />
  );
  return (
    <Page
      title="Webhooks"
      about="Signed requests to your own systems when something happens."
      actions={create}
    >
      {secret && (
        <SecretOnce title="The secret that signs the requests" value={secret.secret}>
          <Verify />
        </SecretOnce>
      )}
      <List
        id="listWebhooks"
        name="Webhooks"
        onRow={open}
        empty={
          <Empty title="No webhooks yet">
            Your backend hears of level-ups, badges and closed boards within a second.
          </Empty>
        }
        columns={[
          { title: "Address", cell: ({ url }) => url },
          { title: "Events", cell: ({ events }) => events.join(", "), isWideOnly: true },
          { title: "Status", cell: ({ status }) => <Status value={status} /> },
          { title: "Last success", cell: ({ lastSuccessAt }) => <When at={lastSuccessAt} /> },
          {
            title: "Last failure",
            cell: ({ lastFailureAt }) => <When at={lastFailureAt} />,
            isWideOnly: true,
          },
        ]}
      />
      <Section title="Events that webhooks are sent">
        <Types />
      </Section>
    </Page>
  );
};

const Types = () => {
  const types = useApi("listWebhookEventTypes");
  return (
    <Loaded query={types}>
      {({ data }) => (
        <Accordion variant="separated">
          {data.map(({ type, occurs, example }) => (
            <Accordion.Item key={type} value={type}>
              <Accordion.Control>
                <Text size="sm" fw={500}>
                  {type}
                </Text>
                <Text size="xs" c="dimmed">
                  {occurs}
                </Text>
              </Accordion.Control>
              <Accordion.Panel>
                {example ? <Json value={example} /> : <Text size="sm">No example</Text>}
              </Accordion.Panel>
            </Accordion.Item>
          ))}
        </Accordion>
      )}
    </Loaded>
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
  const to = useTo();
  const can = useCan();
  const [, go] = useLocation();
  const [tested, setTested] = useState<Answer<"testWebhook">>();
  const [secret, setSecret] = useState<string>();
  const remove = useAct("deleteWebhook", { done: "Removed", onDone: () => go(to("/webhooks")) });
  const data = webhook.data;
  return (
    <Page
      title={data?.url ?? "Webhook"}
      parent={{ title: "Webhooks", to: to("/webhooks") }}
      actions={
        data &&
        can("testWebhook") && (
          <>
            <Act id="testWebhook" path={path} body={{}} onDone={setTested} size="sm" isMain>
              Send a test
            </Act>
            <FormButton
              id="updateWebhook"
              path={path}
              label="Change"
              variant="default"
              first={["url", "events", "description", "status"]}
              initial={{ url: data.url, events: data.events, description: data.description ?? undefined }}
              done="Changed"
            />
            <FormButton
              id="rotateWebhookSecret"
              path={path}
              label="New secret"
              variant="default"
              about="The old one goes on signing beside the new one for the grace period, so that nothing is lost."
              submit="Make a new secret"
              done=""
              onDone={(answer) => setSecret(answer.secret)}
            />
            <FormButton
              id="recoverWebhook"
              path={path}
              label="Send missed events"
              variant="default"
              initial={{ since: new Date(Date.now() - 86_400_000).toISOString() }}
              submit="Send"
              done="They are on their way"
            />
            <Confirm
              label="Remove"
              size="sm"
              title="Remove this webhook?"
              onConfirm={() => remove.mutateAsync({ path })}
            >
              It hears of nothing any more, and its deliveries go.
            </Confirm>
          </>
        )
      }
    >
      {secret && <SecretOnce title="The new secret" value={secret} />}
      {tested && (
        <Alert
          color={tested.success ? "teal" : "red"}
          title={
            tested.success
              ? `It answered ${tested.responseCode} in ${number(tested.durationMs)} ms`
              : (tested.error ?? `It answered ${tested.responseCode}`)
          }
          withCloseButton
          closeButtonLabel="Close"
          onClose={() => setTested(undefined)}
        >
          {tested.responseBody}
        </Alert>
      )}
      <Loaded query={webhook}>
        {(found) => (
          <>
            {found.disabledReason && <Alert color="red" title={found.disabledReason} />}
            <Facts
              of={{
                Status: <Status value={found.status} />,
                Events: found.events.join(", "),
                Secret: `${found.secretHint}…`,
                "Last success": <When at={found.lastSuccessAt} />,
                "Last failure": <When at={found.lastFailureAt} />,
                "Failing since": <When at={found.failingSince} />,
              }}
            />
          </>
        )}
      </Loaded>
      <Section title="Deliveries">
        <Deliveries id={id} />
      </Section>
      <Section title="Verify the signature">
        <Verify />
      </Section>
    </Page>
  );
};

const Deliveries = ({ id }: { id: string }) => {
  const [shown, setShown] = useState<string>();
  const can = useCan();
  return (
    <>
      <List
        id="listWebhookDeliveries"
        path={{ webhookId: id }}
        name="Deliveries"
        filters={["status", "eventType", "from", "to"]}
        refetchInterval={5_000}
        onRow={(row) => setShown(row.id)}
        empty={<Empty title="Nothing was sent yet" />}
        columns={[
          { title: "When", cell: ({ createdAt }) => <When at={createdAt} /> },
          { title: "Event", cell: ({ eventType, isTest }) => `${eventType}${isTest ? " (test)" : ""}` },
          { title: "Status", cell: ({ status }) => <Status value={STATUS[status]} /> },
          { title: "Answer", cell: ({ responseCode, error }) => responseCode ?? error },
          { title: "ms", cell: ({ durationMs }) => number(durationMs), isNumber: true },
          { title: "Retries", cell: ({ retryCount }) => retryCount, isNumber: true, isWideOnly: true },
        ]}
        actions={
          can("retryWebhookDelivery")
            ? ({ id: deliveryId, status, isTest }) =>
                status === "failed" &&
                !isTest && (
                  <Act
                    id="retryWebhookDelivery"
                    path={{ webhookId: id, deliveryId }}
                    body={{} as never}
                    done="It is sent again"
                  >
                    Send again
                  </Act>
                )
            : undefined
        }
      />
      <Modal opened={shown !== undefined} onClose={() => setShown(undefined)} title="Delivery" size="xl">
        {shown && <Delivery webhookId={id} deliveryId={shown} />}
      </Modal>
    </>
  );
};

const STATUS = { pending: "PENDING", success: "DELIVERED", failed: "FAILED" };

const Delivery = (path: { webhookId: string; deliveryId: string }) => {
  const delivery = useApi("getWebhookDelivery", { path });
  return (
    <Loaded query={delivery}>
      {(data) => (
        <Stack>
          <Group justify="space-between">
            <Status value={STATUS[data.status]} />
            {data.status !== "pending" && !data.isTest && (
              <Act
                id="retryWebhookDelivery"
                path={path}
                body={{} as never}
                done="It is sent again"
                size="xs"
                isMain
              >
                Send again
              </Act>
            )}
          </Group>
          <PlainTable
            name="Attempts"
            rows={data.attempts}
            keyOf={({ attempt }) => String(attempt)}
            columns={[
              { title: "Attempt", cell: ({ attempt }) => attempt, isNumber: true },
              { title: "When", cell: ({ at }) => <When at={at} /> },
              { title: "Answer", cell: ({ responseCode, error }) => responseCode ?? error },
              { title: "ms", cell: ({ durationMs }) => number(durationMs), isNumber: true },
              { title: "Body", cell: ({ responseBody }) => responseBody },
            ]}
          />
          <Text fw={600} size="sm">
            What was sent
          </Text>
          <Json value={data.payload} />
        </Stack>
      )}
    </Loaded>
  );
};
