// One layer: a strip of its tensors, and on demand a table of them.

import { useMemo } from "preact/hooks";
import type { ResidencyTensor } from "../api/residency";
import { formatBytes } from "../format";
import type { ResidencyLayer } from "./residency-summary";

interface LayerRowProps {
  readonly layer: ResidencyLayer;
  /** Its bytes as a share of the largest layer's, at most 1. */
  readonly share: number;
  readonly device: string;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

/** Even a layer of norms alone stays visible. */
const NARROWEST_PERCENT = 4;

export function LayerRow({ layer, share, device, isOpen, onToggle }: LayerRowProps) {
  const { name, isLayer, tensors, bytes, residentTensors } = layer;
  // Most layers are unchanged from one event to the next.
  const key = tensors.map(({ state }) => state[0]).join("");
  const strip = useMemo(
    () => (
      <span class="strip" style={{ width: `${Math.max(NARROWEST_PERCENT, share * 100)}%` }}>
        {tensors.map((tensor) => (
          <i
            key={tensor.name}
            class={`tensor ${tensor.state}`}
            style={{ flexGrow: tensor.bytes }}
            title={`${tensor.name}\n${tensor.type} [${tensor.shape.join(", ")}], ${formatBytes(tensor.bytes)}, ${tensor.state}`}
          />
        ))}
      </span>
    ),
    [key, share],
  );
  return (
    <li class="layer">
      <button type="button" aria-expanded={isOpen} onClick={onToggle}>
        <span class="layer-name">
          {isLayer && <span class="offscreen">Layer </span>}
          {name.replace(/^Layer /, "")}
          <span class="offscreen">
            : {residentTensors} of {tensors.length} tensors resident,
          </span>
        </span>
        <span class="strip-track">{strip}</span>
        <span class="layer-bytes">{formatBytes(bytes)}</span>
      </button>
      {isOpen && <TensorTable name={name} tensors={tensors} device={device} />}
    </li>
  );
}

interface TensorTableProps {
  readonly name: string;
  readonly tensors: readonly ResidencyTensor[];
  readonly device: string;
}

function TensorTable({ name, tensors, device }: TensorTableProps) {
  return (
    <div class="tensor-table" role="region" aria-label={`Tensors of ${name}`} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>Tensor</th>
            <th>Type</th>
            <th>Shape</th>
            <th>Bytes</th>
            <th>State</th>
          </tr>
        </thead>
        <tbody>
          {tensors.map((tensor) => (
            <tr key={tensor.name}>
              <td>{tensor.name.replace(/^blk\.\d+\./, "")}</td>
              <td>{tensor.type}</td>
              <td>{tensor.shape.join("×")}</td>
              <td>{formatBytes(tensor.bytes)}</td>
              <td title={placeOf(tensor, device)}>
                <i class={`tensor ${tensor.state}`} aria-hidden="true" /> {tensor.state}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="legend">{device}</p>
    </div>
  );
}

function placeOf({ place, state, resident_bytes: bytes }: ResidencyTensor, device: string): string {
  if (place === "host") return "stays in host memory: single rows of it are read";
  if (state !== "resident") return device;
  return bytes === 0 ? `${device}; read from the mapped file` : `${device}; ${formatBytes(bytes)}`;
}
