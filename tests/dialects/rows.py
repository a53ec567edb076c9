"""The rows of the four systems' behaviour tables: which there are, which are held otherwise on
purpose, and which are left out with the reason. `summary` counts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct


class System(Struct, frozen=True, kw_only=True):
    """One system's table."""

    name: str
    folders: tuple[str, ...]
    """Below tests/dialects, where its rows are tests."""
    listed: str
    """All rows; `X*4` are four of one id."""
    deviating: str
    """Held, with another answer than the original's: docs/compatibility.md says why."""
    left_out: Mapping[str, str]
    """Reason -> rows."""

    @property
    def rows(self) -> dict[str, int]:
        """Row -> how many bear the id."""
        pairs = (word.partition("*") for word in self.listed.split())
        return {row: int(times or 1) for row, _, times in pairs}

    @property
    def out(self) -> frozenset[str]:
        """Rows that are left out."""
        return frozenset(row for rows in self.left_out.values() for row in rows.split())


SYSTEMS: Final = (
    System(
        name="HAMi (NVIDIA, Iluvatar, Mthreads)",
        folders=("hami", "iluvatar", "mthreads"),
        listed="""
            ENC-01 ENC-02 ENC-03 ENC-05 ENC-06 ENC-09 ENC-10 ENC-13 ENC-15 ENC-18 ENC-19 ENC-20
            ENC-23 ENC-26 ENC-27 ENC-28 ENC-29 ENC-31 ENC-32 ENC-33 ADM-N01 ADM-N02 ADM-N03
            ADM-N04 ADM-N06 ADM-N09 ADM-N10 ADM-N11 ADM-N12 ADM-N15 ADM-N16 ADM-N17 ADM-I01
            ADM-M01 ADM-M03 ADM-M04 ADM-M05 ADM-M06 ADM-M08 ADM-M10 WH-04 WH-05 REQ-N01 REQ-N02
            REQ-N04 REQ-N05 REQ-N06 REQ-N10 REQ-N11 REQ-N12 REQ-N13 REQ-N14 REQ-N15 REQ-N17
            REQ-I03 REQ-I04 REQ-M01 REQ-M03 REQ-M04 REQ-M05 REQ-M06 REQ-M07 MAT-03 MAT-04 MAT-06
            MAT-07 MAT-09 MAT-10 MAT-12 MAT-14 MAT-15 MAT-16 FIT-N02 FIT-N03 FIT-N04 FIT-N05
            FIT-N06 FIT-N07 FIT-N09 FIT-N10 FIT-N11 FIT-N12 FIT-N15 FIT-N16 FIT-N18 FIT-N19
            FIT-N20 FIT-N22 FIT-N24 FIT-N25 TOP-01 TOP-03 TOP-06 TOP-07 TOP-08 MIG-02 MIG-03
            MIG-04 MIG-05 MIG-06 MIG-07 MIG-09 MIG-10 FIT-I01 FIT-I03 FIT-I04 FIT-I05 FIT-M01
            FIT-M02 FIT-M04 FIT-M05 FIT-M06 FIT-M08 SCO-01 SCO-03 SCO-05 SCO-06 SCO-09 SCO-10
            ORD-04 ORD-06 ORD-08 ORD-09 ORD-11 ORD-12 ORD-14 WGT-01 WGT-02 WGT-03 WGT-04 POL-02
            POL-03 POL-05 USE-01 USE-02 USE-06 USE-07 USE-08 MUL-01 MUL-03 MUL-04 MUL-05 MUL-06
            SIM-01 SIM-02 SIM-03 FLT-01 ALC-03 ALC-04 ALC-06 ALC-07 QUO-02 QUO-04 QUO-05 QUO-06
            QUO-08 QUO-10 QUO-11 QUO-12 QUO-13 QUO-14 QUO-17 LCK-03 LCK-04 LCK-05 LCK-06 BND-01
            BND-03 HLT-02 HLT-04 HLT-05 HLT-06 HLT-07 HLT-08 MON-03 MON-05 MON-07 MET-02 PRB-05
            PRB-06 PRB-10 PRB-11 PRB-13 PRB-16 PRB-19 PRB-21 PRB-22 PRB-23 PRB-24
        """,
        deviating="""
            ENC-20 ENC-23 ADM-N12 ADM-M05 WH-04 WH-05 REQ-N01 REQ-N04 REQ-N05 REQ-N10 REQ-N12
            REQ-N13 REQ-N15 REQ-I04 REQ-M01 REQ-M04 REQ-M05 REQ-M06 REQ-M07 FIT-N10 FIT-N11 USE-07
            QUO-13 PRB-13 PRB-19 PRB-21
        """,
        left_out={
            "MIG instances are left alone": (
                "ENC-19 ENC-31 ENC-32 ENC-33 MIG-02 MIG-03 MIG-04 MIG-05 MIG-06 MIG-07 MIG-09 "
                "MIG-10"
            ),
            "ids in kubelet's Allocate choose nothing: the grant says which cards": (
                "ALC-03 ALC-06 ALC-07"
            ),
            "there is no node lock: the Binding is one write": (
                "LCK-03 LCK-04 LCK-05 LCK-06 BND-01 BND-03"
            ),
            "priorities are held by agent and hook, not by a monitor's ticks": "MON-03",
        },
    ),
    System(
        name="Volcano",
        folders=("volcano",),
        listed="""
            A1 A2 A3 A4 A6 A7 B1 B2 B3 B4 B6 B7 B8 C3 C5 C8 D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D11 D12
            F1 F2 F3 G3 G4 G5 G6 G7 G10 G11 G13 G14 G15 G18 H1 H2 I1 I3 I5 J1 J6 J9 J11 J12 J13
            J15 J17 J18 J19 J20 J21 J22 J24 J25 K1 K2 K3 K4 K5 K6 K7 K8 K9 K10 K13 K14 K17 K18 L2
            L4 L5 L6 L7 L8 L10 M2 N2 N3 N4 N5 N8 N9 O1 O2 O3
        """,
        deviating="A6 C3 D4 J15 K9 K10 G15",
        left_out={
            "annotations ride in the Binding: nothing is patched or taken back": "F1 F2 K18",
            "ids in kubelet's Allocate choose nothing: the grant says which cards": (
                "G3 G4 G5 G6 G7 G13 G18"
            ),
            "there is no node lock: the Binding is one write": "H1 H2",
            "MIG instances are left alone": "L2 L4 L5 L6 L7 L8 L10",
            "CPU and memory are kube-scheduler's": "M2",
            "shares of queues order gangs; pods of no gang are held to caps alone": "N4",
        },
    ),
    System(
        name="Koordinator",
        folders=("koordinator",),
        listed="""
            A1 A5 A7 A9 A12 A13 A14 A16 A17 A23 A25 A26 A28 A30 A34 A35 A36 A38 B2 B4 B5 B6 B7 B8
            C2 C16 C4 C18 C8 C22 C10 C24 C12 C13 C14 D1 D4 D5 D6 D8 D9 D10 D11 D13 D14 D15 D16 D18
            D19 D20 D22 D26 E5 E6 E7 E8 E11 E12 E13 E14 E17 E18 E20 F1 F2 F3 G1 G3 G4 G5 G7 G9 G10
            H3 H11 I1 I2 I4 I5 I6 I7 I8 I11 I12 J2 J3 J4 J7 J10 J12 K1 K4 K5 K7 K8 K9 K10 K11 K14
            L1 L2 L3 L5 L6 L8 M1 M2 M4 M5 N2 N3 N5 O7 O8 O9 O10 P2 P3 P4
        """,
        deviating="A17 C24 D5 D13 D14 D18 H3 J2 J7 L8",
        left_out={
            "network cards and FPGAs are not placed": (
                "A35 A36 E17 E18 E20 F1 F2 F3 G7 H11"
            ),
            "other vendors' cards and their templates": (
                "B2 B4 B5 B6 B7 I5 I6 I7 I8 I11 L6 N2 N3 N5"
            ),
            "reservations are not offered": "G9",
            "weights of resources in a score are not configured": "G10",
            "usage is measured by our own hook": "J12",
        },
    ),
    System(
        name="GPU Manager (and Aliyun's gpushare)",
        folders=("gpumanager", "aliyun"),
        listed="""
            A03 A05 A06 A10 A11 A12 A13 A14 A15 A16 A18 A19 A20 A22 A23 A24 A25 A26 A27 A28 A29
            A31 A33 A36 A38 A39 A40 A42 A43 A48 A49 B04 B11 C01 C02 C03 C04 C05 C06 C07 C08 C09
            C10 C11 C12 C13 C14 C15 D03 D04 D05 D09 D23 D24 D25 D26 D30 D31 D32 D33 D40 D42 D44
            D46 E01 E04 E05 E06 E07 E08 E09 E10 E11 E12 E13 E14 E16 E17 F-procself*4 F-vcuda*5 G02
            G03 G04 G06 G07 G20 G21 G22 G23 G24 G30
        """,
        deviating="C09 E09 C10 D09 C11 C14",
        left_out={
            "ids in kubelet's Allocate choose nothing: the grant says which cards": (
                "E04 E05 E06 E07 E10 E11 E14"
            ),
            "node labels and a list of active pods are its agent's own": "E16 E17",
            "no registration from within containers": "F-procself",
            "kubectl's plugin for Aliyun's gpushare is not part of Tessera": "G30",
        },
    ),
)  # fmt: skip
