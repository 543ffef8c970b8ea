import { Alert, Badge, Button, Group, Modal, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useApi, useCan, useProject } from "../api/hooks.ts";
import { call } from "../api/client.ts";
import { count, moment, number, words } from "../format.ts";
import { act, ask, create, form, OperationForm, SaveFile } from "../ui/operations.tsx";
import {
  ErrorNote,
  Hint,
  Inline,
  Loaded,
  Named,
  Page,
  press,
  SecretOnce,
  Section,
  When,
} from "../ui/page.tsx";
import { PlainTable, Rows } from "../ui/table.tsx";
import { useSending } from "../ui/sending.tsx";

export const Keys = () => {
  const project = useProject();
  // A sandbox has no keys of its own: test keys belong to the project it is a copy of.
  const projectId = project.sandboxOf ?? project.id;
  const [all, setAll] = useState(false);
  const [secret, setSecret] = useState<string>();
  const shown = (answer: { key: string }) => setSecret(answer.key);
  const make = create("createApiKey", "New key", {
    path: { projectId },
    first: ["name", "environment", "scopes", "expiresAt"],
    initial: { name: "", environment: project.sandboxOf ? "test" : "live" },
    about:
      "A live key acts on the live project, a test key on its sandbox. Without scopes it gets the usual ones.",
    submit: "Make the key",
    done: "",
    onDone: shown,
  });
  return (
    <Page
      title="API keys"
      about="Your backend sends one with every request. Never put one into a game client."
      actions={make}
    >
      {secret && <SecretOnce title="The key" value={secret} />}
      <Switch
        label="Also revoked ones"
        checked={all}
        onChange={(event) => setAll(event.currentTarget.checked)}
      />
      <Rows
        id="listApiKeys"
        given={{ path: { projectId }, query: { includeRevoked: all } }}
        empty="No keys yet"
        hint={make}
        columns={{
          Name: ({ name, prefix }) => (
            <Named name={name} more={<span className="mono">{`${prefix}…`}</span>} />
          ),
          For: ({ environment }) => (
            <Badge color={environment === "live" ? "teal" : "violet"}>{words(environment)}</Badge>
          ),
          Status: "status",
          Scopes: ({ scopes }) => (
            <Text size="xs" maw={360}>
              {scopes.join(", ")}
            </Text>
          ),
          "Last used": ({ lastUsedAt }) => <When at={lastUsedAt} never="never" />,
          Expires: ({ expiresAt }) => <When at={expiresAt} never="never" />,
        }}
        wide={["Scopes", "Expires"]}
        actions={({ id, name, scopes, status }) => {
          const path = { projectId, keyId: id };
          return (
            status === "ACTIVE" && [
              form("updateApiKey", "Change", { path, initial: { name, scopes } }),
              form("rotateApiKey", "Rotate", {
                path,
                about: "The old key goes on working for the grace period.",
                submit: "Make a new key",
                done: "",
                onDone: shown,
              }),
              ask("revokeApiKey", "Revoke", {
                path,
                of: name,
                name,
                text: "Requests with it are refused within seconds.",
              }),
            ]
          );
        }}
      />
    </Page>
  );
};

export const ProjectSettings = () => {
  const { id, name, description, timezone, allowedOrigins, updatedAt, sandboxOf } = useProject();
  const can = useCan();
  const settings = useApi("getProjectSettings");
  const [, go] = useLocation();
  const isSandbox = sandboxOf != null;
  return (
    <Page title="Project settings" about={name}>
      {can("updateProject") && !isSandbox && (
        <Section title="The project">
          <OperationForm
            id="updateProject"
            path={{ projectId: id }}
            initial={{ name, description, timezone, allowedOrigins }}
            hidden={["settings"]}
            key={updatedAt}
          />
        </Section>
      )}
      <Sandbox />
      <Section title="Rules of the game">
        <Loaded query={settings}>
          {(data) =>
            can("updateProjectSettings") ? (
              <OperationForm id="updateProjectSettings" initial={data} />
            ) : (
              <Text>Your role may not change these.</Text>
            )
          }
        </Loaded>
      </Section>
      <Section title="All definitions as a file">
        <Files />
      </Section>
      {can("deleteProject") && !isSandbox && (
        <Section title="Danger zone">
          <Group>
            {ask("deleteProject", "Delete the project", {
              path: { projectId: id },
              title: `Delete ${name}?`,
              name,
              onDone: () => go("/"),
              text: "Its players, events, definitions and keys go, and those of its sandbox.",
            })}
          </Group>
        </Section>
      )}
    </Page>
  );
};

/** The sandbox: a copy of the definitions with its own players and its own clock. */
const Sandbox = () => {
  const project = useProject();
  const can = useCan();
  const path = { projectId: project.sandboxOf ?? project.id };
  if (!can("getSandboxClock")) return null;
  return (
    <Section title="Sandbox">
      {project.sandboxOf == null && project.sandboxProjectId == null ? (
        <Group>
          <Text>A copy to try definitions in, with its own players and its own clock.</Text>
          {act("createSandbox", "Make a sandbox", { path, done: "The sandbox is there", isMain: true })}
        </Group>
      ) : (
        <SandboxClock path={path} />
      )}
    </Section>
  );
};

const SandboxClock = ({ path }: { path: { projectId: string } }) => {
  const { data } = useApi("getSandboxClock", { path }, { refetchInterval: 5_000 });
  const [advance, setAdvance] = useState("1d");
  const happened = Object.entries(data?.lastAdvance?.happened?.counts ?? {}).filter(([, times]) => times > 0);
  return (
    <Stack>
      {data && (
        <Text>
          {data.aheadSeconds === 0
            ? "Its clock shows the real time."
            : `Its clock is ahead and shows ${moment(data.now)}.`}
        </Text>
      )}
      {data?.lastAdvance?.happened && (
        <Hint>
          {happened.map(([what, times]) => `${words(what)}: ${number(times)}`).join(" · ") ||
            "Nothing happened on the way."}
        </Hint>
      )}
      <Inline>
        <TextInput
          label="Move the clock ahead by"
          description="1h, 3d, 2w"
          value={advance}
          onChange={(event) => setAdvance(event.currentTarget.value)}
          w={200}
        />
        {act("setSandboxClock", "Move", { path, body: { advance }, done: "The clock moves" })}
        {act("setSandboxClock", "Back to the real time", {
          path,
          body: { reset: true },
          done: "The clock moves",
        })}
        {ask("syncSandbox", "Copy the live definitions into the sandbox", {
          path,
          title: "Overwrite the sandbox?",
          color: "teal",
          done: "The sandbox has the definitions of the live project",
          text: "What was changed in the sandbox alone is replaced by what is live.",
        })}
      </Inline>
    </Stack>
  );
};

type Change = { section: string; key: string; action: string; fields: string[] };

/** Definitions out of one project and into another: a sandbox goes live this way. */
const Files = () => {
  const project = useProject();
  const can = useCan();
  const twin = project.sandboxOf ?? project.sandboxProjectId;
  const [found, setFound] = useState<{ document: unknown; changes: Change[]; from: string }>();
  const { error, isBusy, send } = useSending();
  const close = () => setFound(undefined);
  const compare = async (document: unknown, from: string) => {
    const { changes } = await call("diffConfig", { body: { document } as never });
    setFound({ document, changes: changes as Change[], from });
  };
  const fromFile = async (file: File | undefined) => {
    if (file) await compare(JSON.parse(await file.text()), file.name);
  };
  const fromTwin = async (twinId: string) => {
    const document = await call("exportConfig", { project: twinId });
    await compare(document, project.sandboxOf ? "the live project" : "the sandbox");
  };
  return (
    <Stack gap="xs">
      <Group>
        <SaveFile id="exportConfig" name={`${project.name}.laurel.json`}>
          Save as a file
        </SaveFile>
        {can("importConfig") && (
          <>
            <Button size="xs" variant="default" component="label">
              Compare with a file
              <input
                type="file"
                accept="application/json,.json"
                hidden
                onChange={(event) => send(() => fromFile(event.currentTarget.files?.[0]))()}
              />
            </Button>
            {twin &&
              press(
                project.sandboxOf ? "Compare with the live project" : "Bring the sandbox's definitions here",
                send(() => fromTwin(twin)),
                { loading: isBusy },
              )}
          </>
        )}
      </Group>
      <ErrorNote error={error} />
      <Modal opened={found !== undefined} onClose={close} title={`From ${found?.from ?? ""}`} size="xl">
        {found?.changes.length === 0 && <Alert color="teal" title="Nothing is different" />}
        {found && found.changes.length > 0 && (
          <Stack>
            <PlainTable
              name="Changes"
              rows={found.changes}
              keyOf={({ section, key }) => `${section} ${key}`}
              columns={{
                What: ({ section, key }) => `${words(section)}: ${key}`,
                Change: "action",
                Fields: "fields",
              }}
            />
            <Group justify="flex-end">
              {act("importConfig", `Bring ${count(found.changes.length, "changes")} into ${project.name}`, {
                body: { document: found.document } as never,
                done: "The definitions are here",
                onDone: close,
                isMain: true,
              })}
            </Group>
          </Stack>
        )}
      </Modal>
    </Stack>
  );
};
