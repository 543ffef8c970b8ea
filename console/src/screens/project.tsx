import { Badge, FileButton, Group, Stack, Switch, Text } from "@mantine/core";
import { useState } from "react";
import { useCan, useProject, useRead } from "../api/hooks.ts";
import { type Answer, call } from "../api/client.ts";
import { count, moment, number, words } from "../format.ts";
import { act, ask, create, form, OperationForm, SaveFile } from "../ui/operations.tsx";
import { Dialog, ErrorNote, Hint, Named, Page, press, Section, When } from "../ui/page.tsx";
import { PlainTable, Rows } from "../ui/table.tsx";
import { useSending } from "../ui/sending.tsx";

export const Keys = () => {
  const project = useProject();
  // A sandbox has no keys of its own: test keys belong to the project it is a copy of.
  const projectId = project.sandboxOf ?? project.id;
  const [all, setAll] = useState(false);
  return (
    <Page
      title="API keys"
      about="Your backend sends one with every request. Never put one into a game client."
      actions={create("createApiKey", "New key", {
        path: { projectId },
        first: ["name", "environment", "scopes", "expiresAt"],
        initial: { name: "", environment: project.sandboxOf ? "test" : "live" },
        about:
          "A live key acts on the live project, a test key on its sandbox. Without scopes it gets the usual ones.",
        submit: "Make the key",
        secret: ["key", "The key"],
      })}
    >
      <Switch label="Revoked ones" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} />
      <Rows
        id="listApiKeys"
        given={{ path: { projectId }, query: { includeRevoked: all } }}
        empty="No keys yet"
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
                secret: ["key", "The key"],
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
  const settings = useRead("getProjectSettings");
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
        {can("updateProjectSettings") ? (
          <OperationForm id="updateProjectSettings" initial={settings} />
        ) : (
          <Text>Your role may not change these.</Text>
        )}
      </Section>
      <Files />
      {can("deleteProject") && !isSandbox && (
        <Section
          title="Danger zone"
          actions={ask("deleteProject", "Delete the project", {
            path: { projectId: id },
            title: `Delete ${name}?`,
            name,
            onDone: () => location.assign("/console/"),
            text: "Its players, events, definitions and keys go, and those of its sandbox.",
          })}
        />
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
  const isThere = project.sandboxOf != null || project.sandboxProjectId != null;
  return (
    <Section
      title="Sandbox"
      actions={
        !isThere &&
        act("createSandbox", "Make a sandbox", { path, done: "The sandbox is there", isMain: true })
      }
    >
      {isThere ? (
        <SandboxClock path={path} />
      ) : (
        <Text>A copy to try definitions in, with its own players and its own clock.</Text>
      )}
    </Section>
  );
};

const SandboxClock = ({ path }: { path: { projectId: string } }) => {
  const { aheadSeconds, now, lastAdvance } = useRead("getSandboxClock", { path }, 5_000);
  const happened = Object.entries(lastAdvance?.happened?.counts ?? {}).filter(([, times]) => times > 0);
  return (
    <>
      <Text>
        {aheadSeconds === 0
          ? "Its clock shows the real time."
          : `Its clock is ahead and shows ${moment(now)}.`}
      </Text>
      {lastAdvance?.happened && (
        <Hint>
          {happened.map(([what, times]) => `${words(what)}: ${number(times)}`).join(" · ") ||
            "Nothing happened on the way."}
        </Hint>
      )}
      <Group gap="xs">
        {form("setSandboxClock", "Move the clock ahead", {
          path,
          initial: { advance: "P1D" },
          hidden: ["reset"],
          submit: "Move",
          done: "The clock moves",
        })}
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
      </Group>
    </>
  );
};

type Found = { document: unknown; changes: Answer<"diffConfig">["changes"]; from: string };

/** Definitions out of one project and into another: a sandbox goes live this way. */
const Files = () => {
  const project = useProject();
  const can = useCan();
  const twin = project.sandboxOf ?? project.sandboxProjectId;
  const [found, setFound] = useState<Found>();
  const { error, isBusy, send } = useSending();
  const close = () => setFound(undefined);
  const twinName = project.sandboxOf ? "the live project" : "the sandbox";
  const compare = (from: string, read: () => Promise<unknown>) =>
    send(async () => {
      const document = await read();
      const { changes } = await call("diffConfig", { body: { document } as never });
      setFound({ document, changes, from });
    });
  return (
    <Section title="All definitions as a file">
      <Group>
        <SaveFile id="exportConfig" name={`${project.name}.laurel.json`}>
          Save as a file
        </SaveFile>
        {can("importConfig") && (
          <>
            <FileButton
              accept="application/json,.json"
              onChange={(file) => file && compare(file.name, async () => JSON.parse(await file.text()))()}
            >
              {({ onClick }) => press("Compare with a file", onClick)}
            </FileButton>
            {twin &&
              press(
                project.sandboxOf ? "Compare with the live project" : "Bring the sandbox's definitions here",
                compare(twinName, () => call("exportConfig", { project: twin })),
                { loading: isBusy },
              )}
          </>
        )}
      </Group>
      <ErrorNote error={error} />
      <Dialog isOpen={found !== undefined} onClose={close} title={`From ${found?.from ?? ""}`}>
        {() => <Changes of={found!} onDone={close} />}
      </Dialog>
    </Section>
  );
};

const Changes = ({ of: { changes, document }, onDone }: { of: Found; onDone: () => void }) => {
  const { name } = useProject();
  return (
    <Stack>
      <PlainTable
        name="Changes"
        rows={changes}
        keyOf={({ section, key }) => `${section} ${key}`}
        empty="Nothing is different"
        columns={{
          What: ({ section, key }) => `${words(section)}: ${key}`,
          Change: "action",
          Fields: "fields",
        }}
      />
      {changes.length > 0 && (
        <Group justify="flex-end">
          {act("importConfig", `Bring ${count(changes.length, "changes")} into ${name}`, {
            body: { document } as never,
            done: "The definitions are here",
            onDone,
            isMain: true,
          })}
        </Group>
      )}
    </Stack>
  );
};
